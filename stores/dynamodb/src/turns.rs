//! Those who wait, of all processes, in order of arrival: an item for each, with the rows that it
//! waits for. Nobody overtakes who waits for a row of his path; others under the same root may
//! pass.
//!
//! A place is taken by a write on the root's version: so the order of arrival is that of the
//! decisions, and the root's row says that somebody may wait, to whoever reads or writes it next.
//! One that was without a heartbeat for [`ALIVE`] (its process was killed, stands still or cannot
//! reach DynamoDB) is nobody's any more.

use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use tidegate_store::core::{Span, Timestamp};
use tokio::time::Instant;

use crate::connection::code;
use crate::error::{Trouble, garbled};
use crate::inner::Inner;
use crate::item::{Item, at, bytes, ends, item, number, read_bytes, read_number};
use crate::keys::{self, Key};
use crate::trips::RootPlace;

/// For how long a place is kept without a heartbeat: three of them, and as far as the clocks of
/// two processes may be apart.
const ALIVE: Span = Span::from_secs(6);

/// How often it is said that it is there.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);

/// When DynamoDB may delete a place that is nobody's.
const KEPT: Span = Span::from_secs(60);

/// So many of those before one are counted.
pub(crate) const MOST_COUNTED: u32 = 8;

/// So many of those who wait at a root are looked at before a decision.
const MOST_SEEN: usize = 1_024;

/// So many places are read at once.
const PAGE: i32 = 64;

/// A place in line, or the wish for one.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// What it is known by.
    id: u128,
    /// How much earlier than it did it counts as having come.
    ahead: Span,
    /// What is kept of it, once it stands.
    stands: Option<Stands>,
}

#[derive(Clone, Debug)]
struct Stands {
    /// When it came, less how much earlier it counts.
    came: i64,
    /// The rows that it waits for.
    names: Vec<Vec<u8>>,
    /// When it was last written that it waits.
    heartbeat: Instant,
}

/// Who waits at a root.
#[derive(Debug)]
pub(crate) struct Waiters {
    /// Those whose places are somebody's: when they came, what they are known by, and the rows
    /// that they wait for.
    alive: Vec<(i64, u128, Vec<Vec<u8>>)>,
}

impl Waiters {
    /// Whether anybody waits but for the one of this turn.
    pub(crate) fn has_others(&self, turn: Option<&Turn>) -> bool {
        let own = turn.map(|turn| turn.id);
        self.alive.iter().any(|(_, id, _)| Some(*id) != own)
    }

    /// The rows among `names` that others wait for, who are before `turn`: all of them, if it
    /// has no place and wants none.
    pub(crate) fn ahead(
        &self,
        turn: Option<&Turn>,
        now: Timestamp,
        names: &[Vec<u8>],
    ) -> Vec<Vec<u8>> {
        let own = turn.map(|turn| (turn.came(now), turn.id));
        let before = self
            .alive
            .iter()
            .filter(|(came, id, _)| own.is_none_or(|own| (*came, *id) < own));
        let mut kept: Vec<Vec<u8>> = before
            .flat_map(|(_, _, wanted)| wanted.iter().filter(|name| names.contains(name)))
            .cloned()
            .collect();
        kept.sort_unstable();
        kept.dedup();
        kept
    }

    /// Since when it stands that is known by `id`, as far as it counts.
    fn since(&self, id: u128) -> Option<i64> {
        let mut alive = self.alive.iter();
        let own = alive.find(|(_, other, _)| *other == id);
        own.map(|(came, _, _)| *came)
    }
}

impl Turn {
    pub(crate) const fn new(id: u128, ahead: Span) -> Self {
        Self {
            id,
            ahead,
            stands: None,
        }
    }

    /// Whether it has a place.
    pub(crate) const fn stands(&self) -> bool {
        self.stands.is_some()
    }

    /// When it came, or comes if it stands from `now` on.
    fn came(&self, now: Timestamp) -> i64 {
        match &self.stands {
            Some(stands) => stands.came,
            None => now.as_micros().saturating_sub(micros(self.ahead)),
        }
    }

    /// What is known of it at the root: since when it has a place, of an earlier ask with the
    /// same patience, too; or that it has none, whatever was believed (it stood still for too
    /// long). It gets the same again.
    pub(crate) fn found(&mut self, waiters: Option<&Waiters>) {
        let since = waiters.and_then(|waiters| waiters.since(self.id));
        match (since, &mut self.stands) {
            (Some(came), stands) => drop(stands.get_or_insert_with(|| Stands {
                came,
                names: Vec::new(),
                heartbeat: Instant::now(),
            })),
            (None, Some(stands)) => stands.names.clear(),
            (None, None) => {}
        }
    }

    /// Whether it must be written that it stands, for these rows.
    pub(crate) fn is_news(&self, names: &[Vec<u8>]) -> bool {
        self.stands
            .as_ref()
            .is_none_or(|stands| stands.names != names)
    }

    /// The item that gives it a place for `names`, which are not none, or keeps it.
    pub(crate) fn place(&mut self, at: &RootPlace, now: Timestamp, names: Vec<Vec<u8>>) -> Item {
        let came = self.came(now);
        let until = now + ALIVE;
        let rows = names.iter().map(|name| Blob::new(name.clone())).collect();
        let item = item(
            &at.at(keys::waiter(came, self.id)),
            [
                ("u", Some(number(until.as_micros()))),
                ("r", Some(AttributeValue::Bs(rows))),
                ("ttl", ends(until + KEPT).map(number)),
            ],
        );
        let heartbeat = Instant::now();
        self.stands = Some(Stands {
            came,
            names,
            heartbeat,
        });
        item
    }

    /// Where its place is, if it has one.
    pub(crate) fn key(&self, at: &RootPlace) -> Option<Key> {
        let stands = self.stands.as_ref()?;
        Some(at.at(keys::waiter(stands.came, self.id)))
    }

    /// Gives the place back by itself.
    pub(crate) async fn give_up(&self, table: &Inner, at: &RootPlace) -> Result<(), Trouble> {
        match self.key(at) {
            Some(key) => table.shared.connection.delete(&key).await,
            None => Ok(()),
        }
    }

    /// Says every so often that it is there; if its place is gone, nothing is said.
    pub(crate) async fn beat(&mut self, table: &Inner, place: &RootPlace) -> Result<(), Trouble> {
        let Some(key) = self.key(place) else {
            return Ok(());
        };
        let Some(stands) = &mut self.stands else {
            return Ok(());
        };
        if stands.heartbeat.elapsed() < HEARTBEAT {
            return Ok(());
        }
        let connection = &table.shared.connection;
        let until = table.shared.clock.now() + ALIVE;
        let update = connection
            .client
            .update_item()
            .table_name(&connection.table);
        let update = update
            .set_key(Some(at(&key)))
            .update_expression("SET u = :u, #ttl = :ttl")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":u", number(until.as_micros()))
            .expression_attribute_values(":ttl", number(ends(until + KEPT).unwrap_or(1)));
        let asked = match connection.ask(update.send()).await {
            Ok(_) => {
                stands.heartbeat = Instant::now();
                return Ok(());
            }
            Err(asked) => asked,
        };
        // It is gone: the next look says so.
        if code(&asked) == Some("ConditionalCheckFailedException") {
            return Ok(());
        }
        match asked.into() {
            // It is told the next time.
            Trouble::Lost(_) | Trouble::Throttled(..) => Ok(()),
            trouble => Err(trouble),
        }
    }

    /// How many are before it, up to [`MOST_COUNTED`] and one, or none if it has lost its
    /// place: then it asks. And says every so often that it is there.
    pub(crate) async fn look(&mut self, table: &Inner, place: &RootPlace) -> Result<u32, Trouble> {
        self.beat(table, place).await?;
        let Some(stands) = &self.stands else {
            return Ok(0);
        };
        let own = keys::waiter(stands.came, self.id);
        let now = table.shared.clock.now();
        let (mut before, mut next) = (0, None);
        loop {
            let from = next.take();
            let page = table.shared.connection.query(&place.partition, |query| {
                query
                    .key_condition_expression("pk = :p AND sk BETWEEN :w AND :own")
                    .expression_attribute_values(":w", bytes([keys::WAITER]))
                    .expression_attribute_values(":own", bytes(own.clone()))
                    .limit(PAGE)
                    .set_exclusive_start_key(from.clone())
            });
            let page = page.await?;
            for item in &page.items {
                if read_bytes(item, "sk")? == own {
                    return Ok(before);
                }
                let Some((_, _, names)) = waiter(item, now)? else {
                    continue;
                };
                before += u32::from(names.iter().any(|name| stands.names.contains(name)));
            }
            next = page.next;
            if before > MOST_COUNTED {
                return Ok(before);
            }
            if next.is_none() {
                return Ok(0);
            }
        }
    }
}

impl Inner {
    /// Who waits at a root.
    pub(crate) async fn waiters(&self, place: &RootPlace) -> Result<Waiters, Trouble> {
        let now = self.shared.clock.now();
        let items = self
            .shared
            .connection
            .query_all(&place.partition, MOST_SEEN, |query| {
                query
                    .key_condition_expression("pk = :p AND begins_with(sk, :w)")
                    .expression_attribute_values(":w", bytes([keys::WAITER]))
            });
        let items = items.await?;
        let alive: Result<Vec<_>, _> = items.iter().map(|item| waiter(item, now)).collect();
        let alive = alive?.into_iter().flatten().collect();
        Ok(Waiters { alive })
    }
}

/// A place that is somebody's at `now`.
#[expect(
    clippy::type_complexity,
    reason = "the parts of a place, which are read in this file"
)]
fn waiter(item: &Item, now: Timestamp) -> Result<Option<(i64, u128, Vec<Vec<u8>>)>, Trouble> {
    let until: i64 = read_number(item, "u")?;
    if until <= now.as_micros() {
        return Ok(None);
    }
    let sort = keys::read_waiter(read_bytes(item, "sk")?);
    let (came, id) = sort.ok_or_else(|| garbled("sk"))?;
    let names = item.get("r").and_then(|names| names.as_bs().ok());
    let names = names.ok_or_else(|| garbled("r"))?.iter();
    Ok(Some((
        came,
        id,
        names.map(|name| name.as_ref().to_vec()).collect(),
    )))
}

/// No span here is longer than a century.
const fn micros(span: Span) -> i64 {
    const MOST: u64 = 1 << 52;
    let micros = span.as_micros();
    (if micros < MOST { micros } else { MOST }) as i64
}
