//! What is defined for an owner: items of their own, in the order of their changes in the index
//! `due`; events, in the order of their versions, of each subject in that of the index, and
//! noted in the order of their ends; and the owner's version, with how many events are noted;
//! and the versions of half a day.
//!
//! Every change compares and raises the owner's version, in one transaction with all that it
//! writes: so what it has read of the owner, as of one instant, still holds. A version is the
//! clock in microseconds, and one more where that stands.
//!
//! An event's note stays until a change deletes both; the event DynamoDB may have deleted before,
//! once it is over. So what is over, and how many are not, is told by the notes alone.
//!
//! A removed definition stays for a day as an item without a value, so that who knows a version
//! of the last half day is told of it; who knows an older one, or one that was never made, is
//! told everything.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::{Delete, Put, TransactWriteItem};
use tidegate_net::following::{Following, Hearing, Source};
use tidegate_net::key_order::{self, NamedKeys, Scan};
use tidegate_store::core::{Span, Timestamp};
use tidegate_store::definitions::{MOST_CHANGES, event_cursor};
use tidegate_store::{Change, Defined, Definition, Definitions, Event, Page, StoreError};
use tokio::sync::{Mutex, Notify};

use crate::connection::{Transacted, unbuilt};
use crate::error::{Trouble, garbled};
use crate::item::{
    INDEX, Item, at, bytes, check_size, ends, found_bytes, found_number, item, number, read_bytes,
    read_number,
};
use crate::keys::{self, EVENT, Key, ROW};
use crate::shared::Shared;

/// For how long a removed one is kept.
const REMOVED: Span = Span::from_secs(86_400);

/// Who knows a version that is older is told everything.
const REMEMBERED: Span = Span::from_secs(43_200);

/// So many events at most go with a change that has one, those that are over first. They and
/// their notes have room in its transaction.
const MOST_GONE: usize = 32;

/// The definitions of a store. See the [module](self).
#[derive(Debug)]
pub(crate) struct DefinedItems {
    shared: Arc<Shared>,
    following: Following,
    /// Changes of one process are made one after the other: those of one owner would only meet.
    turn: Mutex<()>,
}

impl DefinedItems {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            following: Following::default(),
            turn: Mutex::new(()),
        }
    }

    async fn version(&self, owner: &str) -> Result<u64, Trouble> {
        let found = self.shared.connection.get(&version_key(owner)).await?;
        let version = found.map(|item| read_number(&item, "v")).transpose()?;
        Ok(version.unwrap_or(0))
    }

    /// Makes a change, or finds what is there in its place.
    async fn change_once(&self, owner: &str, change: &Change) -> Result<Defined, Trouble> {
        let connection = &self.shared.connection;
        let (definition, key) = (
            &change.definition,
            definition_key(owner, &change.definition.key),
        );
        let mut found = connection
            .get_all(&[version_key(owner), key.clone()])
            .await?;
        let now = self.shared.clock.now();
        let there = found.pop().flatten();
        let own = found.pop().flatten().unwrap_or_default();
        let there = there.map(|item| read_definition(&item, now)).transpose()?;
        let there = there.filter(|there| there.value.is_some());
        let version = there.as_ref().map_or(0, |there| there.version);
        if change.expected.is_some_and(|expected| expected != version) {
            return Ok(Defined::Conflict(there));
        }
        if definition.value.is_none() && there.is_none() {
            return Ok(Defined::Done {
                changed: false,
                version: 0,
            });
        }
        let last: Option<u64> = found_number(&own, "v")?;
        let micros = u64::try_from(now.as_micros()).unwrap_or(1).max(1);
        let version = last.map_or(micros, |last| micros.max(last + 1));
        let mut events: u64 = found_number(&own, "k")?.unwrap_or(0);
        let mut writes = vec![self.put(written(&key, definition, (version, now)))?];
        if let Some(event) = &change.event {
            let gone = self.dropped_by(owner, event, (events, now)).await?;
            events = (events + 1).saturating_sub(gone.len() as u64);
            for (version, until) in gone {
                writes.push(self.delete(&event_key(owner, version))?);
                writes.push(self.delete(&ending_key(owner, version, until))?);
            }
            let until = (now + Span::from(event.lasts)).as_micros();
            writes.push(self.put(written_event(owner, event, (version, now, until)))?);
            writes.push(self.put(item(&ending_key(owner, version, until), []))?);
        }
        writes.push(self.put(noted(owner, version, now))?);
        writes.push(self.raise(owner, last, (version, events))?);
        self.make(&writes).await?;
        Ok(Defined::Done {
            changed: true,
            version,
        })
    }

    fn put(&self, kept: Item) -> Result<TransactWriteItem, Trouble> {
        check_size(&kept)?;
        let put = Put::builder().table_name(&self.shared.connection.table);
        let put = put.set_item(Some(kept)).build().map_err(unbuilt)?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    fn delete(&self, key: &Key) -> Result<TransactWriteItem, Trouble> {
        let delete = Delete::builder().table_name(&self.shared.connection.table);
        let delete = delete.set_key(Some(at(key))).build().map_err(unbuilt)?;
        Ok(TransactWriteItem::builder().delete(delete).build())
    }

    /// Raises the owner's version, if it is still the `last`.
    fn raise(
        &self,
        owner: &str,
        last: Option<u64>,
        (version, events): (u64, u64),
    ) -> Result<TransactWriteItem, Trouble> {
        let raised = [("v", Some(number(version))), ("k", Some(number(events)))];
        let raised = item(&version_key(owner), raised);
        let raise = Put::builder()
            .table_name(&self.shared.connection.table)
            .set_item(Some(raised));
        let raise = match last {
            Some(last) => raise
                .condition_expression("v = :v")
                .expression_attribute_values(":v", number(last)),
            None => raise.condition_expression("attribute_not_exists(pk)"),
        };
        let raise = raise.build().map_err(unbuilt)?;
        Ok(TransactWriteItem::builder().put(raise).build())
    }

    /// Writes all of it or nothing, once: what was not answered is asked for again as it is.
    async fn make(&self, writes: &[TransactWriteItem]) -> Result<(), Trouble> {
        let connection = &self.shared.connection;
        let (token, mut backoff, mut is_unsure) =
            (rand::random(), self.shared.connection.backoff(), false);
        loop {
            let trouble = match connection.transact(writes, token).await {
                Ok(Transacted::Done) => return Ok(()),
                Ok(Transacted::Unmet(_)) => {
                    let words = "others change definitions of the same owner";
                    return Err(Trouble::Lost(words.into()));
                }
                Err(trouble) => trouble,
            };
            is_unsure |= matches!(trouble, Trouble::Broken(_));
            connection
                .once_more(&mut backoff, trouble, is_unsure)
                .await?;
        }
    }

    /// Which of the owner's `events` go when `event` comes, by version and end: those that are
    /// over, and of too many others the oldest.
    async fn dropped_by(
        &self,
        owner: &str,
        event: &Event,
        (events, now): (u64, Timestamp),
    ) -> Result<Vec<(u64, i64)>, Trouble> {
        if events == 0 {
            return Ok(Vec::new());
        }
        let (partition, connection) = (keys::definitions(owner), &self.shared.connection);
        let over = connection.query(&partition, |query| {
            let (from, to) = (
                keys::ending(i64::MIN, 0),
                keys::ending(now.as_micros(), u64::MAX),
            );
            query
                .key_condition_expression("pk = :p AND sk BETWEEN :f AND :t")
                .expression_attribute_values(":f", bytes(from))
                .expression_attribute_values(":t", bytes(to))
                .limit(MOST_GONE as i32)
        });
        let mut gone = Vec::new();
        for note in over.await?.items {
            let (until, version) =
                keys::read_ending(read_bytes(&note, "sk")?).ok_or_else(|| garbled("sk"))?;
            gone.push((version, until));
        }
        let left = events.saturating_sub(gone.len() as u64);
        let surplus = (left + 1).saturating_sub(event.bound());
        // More may be over: they go first, with the next changes.
        let room = MOST_GONE - gone.len();
        if surplus == 0 || room == 0 {
            return Ok(gone);
        }
        let oldest = connection.query(&partition, |query| {
            query
                .key_condition_expression("pk = :p AND begins_with(sk, :e)")
                .expression_attribute_values(":e", bytes([EVENT]))
                .limit(MOST_GONE as i32)
        });
        let mut others = Vec::new();
        for item in oldest.await?.items {
            let version = keys::read_event(read_bytes(&item, "sk")?);
            let version = version.ok_or_else(|| garbled("sk"))?;
            others.push((version, read_number(&item, "e")?));
        }
        others.retain(|one| !gone.contains(one));
        let surplus = usize::try_from(surplus).map_or(room, |surplus| surplus.min(room));
        gone.extend(others.into_iter().take(surplus));
        Ok(gone)
    }

    /// What has changed; of everything that has, nothing but that for who keeps `some`.
    async fn read(&self, owner: &str, newer_than: u64, some: bool) -> Result<Definitions, Trouble> {
        let now = self.shared.clock.now();
        let oldest = u64::try_from((now - REMEMBERED).as_micros()).unwrap_or(0);
        let version = self.version(owner).await?;
        if newer_than == version && newer_than > 0 {
            return Ok(Definitions::since(newer_than, version, true));
        }
        let (partition, connection) = (keys::definitions(owner), &self.shared.connection);
        let is_noted = newer_than >= oldest
            && connection
                .get(&change_key(owner, newer_than))
                .await?
                .is_some();
        let mut read = Definitions::since(newer_than, version, is_noted);
        let mut found = Vec::new();
        if !read.whole {
            let changed = connection.query_all(&partition, MOST_CHANGES + 1, |query| {
                query
                    .index_name(INDEX)
                    .key_condition_expression("pk = :p AND due BETWEEN :f AND :t")
                    .expression_attribute_values(":f", bytes((newer_than + 1).to_be_bytes()))
                    .expression_attribute_values(":t", bytes(LAST.to_be_bytes()))
            });
            found = changed.await?;
            read.whole = found.len() > MOST_CHANGES;
        }
        if read.whole {
            found.clear();
        }
        if read.whole && !some {
            let all = connection.query_all(&partition, usize::MAX, |query| {
                query
                    .key_condition_expression("pk = :p AND begins_with(sk, :k)")
                    .expression_attribute_values(":k", bytes([ROW]))
            });
            found = all.await?;
        }
        let changed = found.iter().map(|item| read_definition(item, now));
        read.changed = changed.collect::<Result<_, _>>()?;
        if read.whole {
            read.changed.retain(|one| one.value.is_some());
        }
        Ok(read)
    }

    async fn read_one(&self, owner: &str, key: &[u8]) -> Result<Option<Definition>, Trouble> {
        let key = definition_key(owner, key);
        let found = self.shared.connection.get(&key).await?;
        let now = self.shared.clock.now();
        let found = found.map(|item| read_definition(&item, now)).transpose()?;
        Ok(found.filter(|found| found.value.is_some()))
    }

    /// Along the table, a page after the other, until there are enough.
    async fn read_scan(&self, owner: &str, scan: Scan) -> Result<Vec<Definition>, Trouble> {
        let now = self.shared.clock.now();
        let partition = keys::definitions(owner);
        let from = keys::definition_at(&scan.from);
        let to = scan.to.as_deref().map(keys::definition_at);
        let to = to.unwrap_or_else(|| vec![ROW + 1]);
        let (above, is_on_it) = &scan.above;
        let is_wanted = |one: &Definition| {
            let is_above = one.key > *above || (*is_on_it && one.key == *above);
            let is_below = scan.below.as_ref().is_none_or(|below| one.key < *below);
            one.value.is_some() && is_above && is_below
        };
        let (mut wanted, mut next) = (Vec::new(), None);
        loop {
            let start = next.take();
            let page = self.shared.connection.query(&partition, |query| {
                let query = match scan.by_key {
                    true => query,
                    false => query.limit(scan.most as i32 + 1),
                };
                query
                    .key_condition_expression("pk = :p AND sk BETWEEN :f AND :t")
                    .expression_attribute_values(":f", bytes(from.clone()))
                    .expression_attribute_values(":t", bytes(to.clone()))
                    .set_exclusive_start_key(start.clone())
            });
            let page = page.await?;
            for item in &page.items {
                let one = read_definition(item, now)?;
                if read_bytes(item, "sk")? < to.as_slice() && is_wanted(&one) {
                    wanted.push(one);
                }
            }
            if scan.by_key {
                wanted.sort_by(|one, other| one.key.cmp(&other.key));
            }
            let is_enough = !scan.by_key && wanted.len() >= scan.most;
            wanted.truncate(scan.most);
            next = page.next;
            if next.is_none() || is_enough {
                return Ok(wanted);
            }
        }
    }

    async fn read_events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: u64,
        most: usize,
    ) -> Result<Page<Event>, Trouble> {
        let partition = keys::definitions(owner);
        let place = |version| match subject {
            None => keys::event(version),
            Some(subject) => keys::event_of(subject, version),
        };
        let (from, to) = (place(after.saturating_add(1)), place(u64::MAX));
        let found = self
            .shared
            .connection
            .query_all(&partition, most + 1, |query| {
                let query = match subject {
                    None => query.key_condition_expression("pk = :p AND sk BETWEEN :f AND :t"),
                    Some(_) => query
                        .index_name(INDEX)
                        .key_condition_expression("pk = :p AND due BETWEEN :f AND :t"),
                };
                query
                    .expression_attribute_values(":f", bytes(from.clone()))
                    .expression_attribute_values(":t", bytes(to.clone()))
                    .limit(most as i32 + 1)
            });
        let (found, now) = (found.await?, self.shared.clock.now());
        let events: Result<Vec<Event>, Trouble> =
            found.iter().map(|item| read_event(item, now)).collect();
        let mut events = events?;
        let is_last = events.len() <= most;
        events.truncate(most);
        let next = events.last().filter(|_| !is_last);
        let next = next.map(|last| event_cursor(last.version));
        events.retain(|event| !event.lasts.is_zero());
        Ok(Page {
            items: events,
            next,
        })
    }
}

/// No version is larger: behind it in the index are the events of each subject.
const LAST: u64 = u64::MAX >> 1;

impl NamedKeys for DefinedItems {
    const HEAD: usize = keys::HEAD;

    async fn scan(&self, owner: &str, scan: Scan) -> Result<Vec<Definition>, StoreError> {
        self.read_scan(owner, scan).await.map_err(Trouble::told)
    }
}

impl Source for DefinedItems {
    /// How often those who follow look whether there is news: within five seconds they know,
    /// if DynamoDB answers in half that.
    const LOOK: Duration = Duration::from_secs(2);

    /// Tries again what was lost to others; what was cut off is done once.
    async fn change(&self, owner: &str, change: &Change) -> Result<Defined, StoreError> {
        let _one_at_a_time = self.turn.lock().await;
        let mut backoff = self.shared.connection.backoff();
        loop {
            match self.change_once(owner, change).await {
                Ok(made) => return Ok(made),
                Err(trouble) => backoff.after(trouble).await?,
            }
        }
    }

    async fn one(&self, owner: &str, key: &[u8]) -> Result<Option<Definition>, StoreError> {
        self.read_one(owner, key).await.map_err(Trouble::told)
    }

    async fn page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Page<Definition>, StoreError> {
        key_order::page(self, owner, (prefix, after), most).await
    }

    async fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: u64,
        most: usize,
    ) -> Result<Page<Event>, StoreError> {
        let read = self.read_events(owner, subject, after, most).await;
        read.map_err(Trouble::told)
    }

    async fn versions(&self, owners: &[String]) -> Result<Vec<u64>, StoreError> {
        let mut versions = Vec::with_capacity(owners.len());
        for owner in owners {
            versions.push(self.version(owner).await.map_err(Trouble::told)?);
        }
        Ok(versions)
    }

    async fn changes(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let read = self.read(owner, newer_than, false).await;
        read.map_err(Trouble::told)
    }

    async fn changed_keys(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let read = self.read(owner, newer_than, true).await;
        read.map(Definitions::keys_alone).map_err(Trouble::told)
    }

    fn deadline(&self) -> Duration {
        self.shared.driver.deadline()
    }

    /// DynamoDB tells nothing.
    fn hear(&self, _: Arc<Notify>) -> Option<Hearing> {
        None
    }

    fn following(&self) -> &Following {
        &self.following
    }
}

fn version_key(owner: &str) -> Key {
    Key {
        partition: keys::definitions(owner),
        sort: b"v".to_vec(),
    }
}

fn change_key(owner: &str, version: u64) -> Key {
    Key {
        partition: keys::definitions(owner),
        sort: keys::change(version),
    }
}

fn event_key(owner: &str, version: u64) -> Key {
    Key {
        partition: keys::definitions(owner),
        sort: keys::event(version),
    }
}

fn ending_key(owner: &str, version: u64, until: i64) -> Key {
    Key {
        partition: keys::definitions(owner),
        sort: keys::ending(until, version),
    }
}

fn definition_key(owner: &str, key: &[u8]) -> Key {
    Key {
        partition: keys::definitions(owner),
        sort: keys::row(key),
    }
}

/// The item of a definition, of this version.
fn written(key: &Key, definition: &Definition, (version, now): (u64, Timestamp)) -> Item {
    let until = definition.lasts.map(|lasts| now + Span::from(lasts));
    let gone = match (&definition.value, until) {
        (None, _) => Some(now + REMOVED),
        (Some(_), Some(until)) => Some(until + REMOVED),
        (Some(_), None) => None,
    };
    item(
        key,
        [
            ("b", definition.value.clone().map(bytes)),
            ("n", Some(bytes(definition.key.clone()))),
            ("due", Some(bytes(version.to_be_bytes()))),
            ("e", until.map(|until| number(until.as_micros()))),
            ("ttl", gone.and_then(ends).map(number)),
        ],
    )
}

/// The item that notes a version.
fn noted(owner: &str, version: u64, now: Timestamp) -> Item {
    let gone = ends(now + REMEMBERED).map(number);
    item(&change_key(owner, version), [("ttl", gone)])
}

/// The item of the event of this version, which is told now and ends then.
fn written_event(owner: &str, event: &Event, (version, now, until): (u64, Timestamp, i64)) -> Item {
    item(
        &event_key(owner, version),
        [
            ("b", Some(bytes(event.body.clone()))),
            ("n", Some(bytes(event.subject.clone()))),
            ("due", Some(bytes(keys::event_of(&event.subject, version)))),
            ("t", Some(number(now.as_micros()))),
            ("e", Some(number(until))),
            ("m", Some(number(event.most))),
            ("ttl", ends(Timestamp::from_micros(until)).map(number)),
        ],
    )
}

/// A definition; one that is over has no value.
fn read_definition(item: &Item, now: Timestamp) -> Result<Definition, Trouble> {
    let until: Option<i64> = found_number(item, "e")?;
    let lasts = until.map(|until| left(until, now));
    let version = read_bytes(item, "due")?.try_into();
    Ok(Definition {
        key: read_bytes(item, "n")?.into(),
        value: found_bytes(item, "b")
            .filter(|_| lasts != Some(Duration::ZERO))
            .map(Into::into),
        lasts,
        version: u64::from_be_bytes(version.map_err(|_| garbled("due"))?),
    })
}

fn read_event(item: &Item, now: Timestamp) -> Result<Event, Trouble> {
    let version = keys::read_event(read_bytes(item, "sk")?);
    Ok(Event {
        subject: read_bytes(item, "n")?.into(),
        body: read_bytes(item, "b")?.into(),
        at: Timestamp::from_micros(read_number(item, "t")?),
        lasts: left(read_number(item, "e")?, now),
        most: read_number(item, "m")?,
        version: version.ok_or_else(|| garbled("sk"))?,
    })
}

/// How long it is until then; nothing if it has been.
fn left(until: i64, now: Timestamp) -> Duration {
    Timestamp::from_micros(until).since(now).as_duration()
}
