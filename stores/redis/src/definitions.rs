//! What is defined for an owner: a hash, and its last changes in order, never dropped with any
//! state. Its version is that of the last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use redis::{Client, Value};
use tidegate_net::following::{Following, Hearing, Source};
use tidegate_net::key_order;
use tidegate_store::core::Timestamp;
use tidegate_store::definitions::{MOST_ANCESTORS, event_cursor};
use tidegate_store::{Change, Defined, Definition, Definitions, Event, Page, StoreError};
use tokio::sync::Notify;

use crate::connection::Connection;
use crate::error::garbled;
use crate::keys::Names;
use crate::link::{Link, scanned, text};
use crate::shared::Shared;
use crate::wakes;

/// So many are read at a time, about.
const AT_ONCE: usize = 1_000;

/// The definitions of a store. See the [module](self).
#[derive(Debug)]
pub(crate) struct DefinedKeys {
    shared: Arc<Shared>,
    prefix: String,
    following: Following,
}

impl DefinedKeys {
    pub(crate) fn new(shared: &Arc<Shared>, prefix: &str) -> Self {
        Self {
            shared: Arc::clone(shared),
            prefix: prefix.to_owned(),
            following: Following::default(),
        }
    }

    fn link(&self) -> &Link {
        &self.shared.link
    }

    fn keys(&self, owner: &str) -> [Vec<u8>; 4] {
        Names::new(&self.prefix, owner).definitions()
    }

    /// What has changed since a version, without what is whole; and the server's clock.
    async fn since(
        &self,
        owner: &str,
        newer_than: u64,
        keys_alone: bool,
    ) -> Result<(Definitions, u64), StoreError> {
        let script = &self.shared.scripts.defined;
        let alone = if keys_alone { "1" } else { "0" };
        let arguments = [shared(newer_than.to_string()), shared(alone)];
        let keys = self.keys(owner);
        let answer = self.link().call(script, &keys, &arguments).await?;
        answered(answer, newer_than).ok_or_else(|| garbled("no changes"))
    }

    /// What is under a key, and its ancestors, in one trip.
    pub(crate) async fn with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> Result<Vec<Definition>, StoreError> {
        let found = self.read_chain(owner, key, MOST_ANCESTORS, parent_offset);
        Ok(Definition::chain(key, parent_offset, found.await?))
    }

    async fn read_chain(
        &self,
        owner: &str,
        key: &[u8],
        most_ancestors: usize,
        parent_offset: u8,
    ) -> Result<Vec<Definition>, StoreError> {
        let [own, ..] = self.keys(owner);
        let arguments = [
            shared(key),
            shared(most_ancestors.to_string()),
            shared(parent_offset.to_string()),
        ];
        let script = &self.shared.scripts.definition;
        let found = self.link().call(script, &[own], &arguments).await?;
        let found = listed(found).and_then(|found| <[Value; 4]>::try_from(found).ok());
        let found = found.and_then(together);
        found.ok_or_else(|| garbled("no definitions"))
    }

    /// On which it is told that something was defined; those who may use the channels on
    /// which waiters are woken may use it.
    fn channel(&self) -> String {
        format!("{}defined:{}", wakes::PREFIX, self.prefix)
    }
}

impl Source for DefinedKeys {
    /// How often those who follow look whether there is news, if they are not told: within a
    /// second they know.
    const LOOK: Duration = Duration::from_millis(500);

    async fn change(&self, owner: &str, change: &Change) -> Result<Defined, StoreError> {
        let definition = &change.definition;
        let event = change.event.as_ref();
        let has = |is: bool| shared(if is { "1" } else { "0" });
        let decimal = |number: Option<u128>| match number {
            Some(number) => shared(number.to_string()),
            None => shared(""),
        };
        let lasts = definition.lasts.map(|lasts| lasts.as_micros());
        let bound = event.map(|event| u128::from(event.bound()));
        let arguments: [Arc<[u8]>; 11] = [
            shared(&definition.key),
            has(definition.value.is_some()),
            shared(definition.value.as_deref().unwrap_or_default()),
            decimal(lasts),
            shared(self.channel()),
            decimal(change.expected.map(u128::from)),
            has(event.is_some()),
            shared(event.map_or(&[][..], |event| &event.subject)),
            shared(event.map_or(&[][..], |event| &event.body)),
            decimal(event.map(|event| event.lasts.as_micros())),
            decimal(bound),
        ];
        let names = Names::new(&self.prefix, owner);
        let keys: Vec<Vec<u8>> = names
            .definitions()
            .into_iter()
            .chain(names.events())
            .collect();
        let script = &self.shared.scripts.define;
        let made = self.link().call(script, &keys, &arguments).await?;
        outcome(made, &definition.key).ok_or_else(|| garbled("no change"))
    }

    async fn one(&self, owner: &str, key: &[u8]) -> Result<Option<Definition>, StoreError> {
        let mut found = self.read_chain(owner, key, 0, 0).await?.into_iter();
        Ok(found.next())
    }

    async fn page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Page<Definition>, StoreError> {
        let [own, .., index] = self.keys(owner);
        let (low, is_on_it) = key_order::beginning(prefix, after);
        let from = [if is_on_it { b"[" } else { b"(" }, low].concat();
        let to = match key_order::behind(prefix) {
            Some(high) => [b"(", high.as_slice()].concat(),
            None => b"+".to_vec(),
        };
        let arguments = [shared(from), shared(to), shared(most.to_string())];
        let script = &self.shared.scripts.page;
        let page = self.link().call(script, &[own, index], &arguments).await?;
        read_page(page).ok_or_else(|| garbled("no page"))
    }

    async fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: u64,
        most: usize,
    ) -> Result<Page<Event>, StoreError> {
        let [events, order, subjects, _] = Names::new(&self.prefix, owner).events();
        let arguments = [
            shared(if subject.is_some() { "1" } else { "0" }),
            shared(subject.unwrap_or_default()),
            shared(after.to_string()),
            shared(most.to_string()),
        ];
        let script = &self.shared.scripts.events;
        let keys = [events, order, subjects];
        let page = self.link().call(script, &keys, &arguments).await?;
        read_events(page).ok_or_else(|| garbled("no events"))
    }

    async fn versions(&self, owners: &[String]) -> Result<Vec<u64>, StoreError> {
        let version = |owner: &String| {
            let mut request = redis::cmd("ZRANGE");
            let [_, changes, ..] = self.keys(owner);
            request.arg(changes).arg(-1).arg(-1);
            async move {
                last_version(self.link().query(&request).await?)
                    .ok_or_else(|| garbled("no version"))
            }
        };
        try_join_all(owners.iter().map(version)).await
    }

    async fn changes(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let (mut since, now) = self.since(owner, newer_than, false).await?;
        if since.whole {
            let [own, ..] = self.keys(owner);
            since.changed = scan(self.link(), &own, now).await?;
        }
        Ok(since)
    }

    async fn changed_keys(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        Ok(self.since(owner, newer_than, true).await?.0)
    }

    fn deadline(&self) -> Duration {
        self.link().deadline()
    }

    fn hear(&self, bell: Arc<Notify>) -> Option<Hearing> {
        let connection = Arc::clone(self.link().connection());
        let (deadline, channel) = (self.deadline(), self.channel());
        Some(Box::pin(hear(connection, deadline, channel, bell)))
    }

    fn following(&self) -> &Following {
        &self.following
    }
}

/// Rings for whatever is said on `channel`, until the connection is lost.
async fn hear(connection: Arc<Connection>, deadline: Duration, channel: String, bell: Arc<Notify>) {
    for client in connection.listeners().await.unwrap_or_default() {
        hear_at(&client, deadline, &channel, &bell).await;
    }
}

async fn hear_at(client: &Client, deadline: Duration, channel: &str, bell: &Notify) {
    let Some(mut listener) = wakes::subscribed(client, deadline, channel).await else {
        return;
    };
    // What was published before was not received.
    bell.notify_one();
    let mut said = listener.on_message();
    while said.next().await.is_some() {
        bell.notify_one();
    }
}

/// All of them that are not over at `now`: in pieces, so that the server does something else
/// between two.
async fn scan(link: &Link, name: &[u8], now: u64) -> Result<Vec<Definition>, StoreError> {
    // One may come twice where the hash shrinks meanwhile.
    let mut found = HashMap::new();
    let mut cursor = b"0".to_vec();
    loop {
        let mut scan = redis::cmd("HSCAN");
        scan.arg(name).arg(&cursor).arg("COUNT").arg(AT_ONCE);
        let (next, values) = scanned(link.query(&scan).await?)?;
        let mut values = values.into_iter();
        while let (Some(key), Some(value)) = (values.next(), values.next()) {
            found.insert(key, value);
        }
        cursor = next;
        if cursor == b"0" {
            break;
        }
    }
    let definitions = found.into_iter().filter_map(|(key, text)| {
        let mut parts = text.splitn(3, |&byte| byte == b' ');
        let version = decimal(parts.next()?)?;
        let ends = decimal(parts.next()?)?;
        let definition = Definition::new(key, parts.next()?).at_version(version);
        match ends {
            0 => Some(definition),
            ends => {
                let left = ends.checked_sub(now).filter(|&left| left > 0)?;
                Some(definition.lasting(Duration::from_micros(left)))
            }
        }
    });
    Ok(definitions.collect())
}

/// What became of a change of `key`.
fn outcome(answer: Value, key: &[u8]) -> Option<Defined> {
    let mut parts = listed(answer)?.into_iter();
    let (is_made, version) = (parts.next()?, number(parts.next()?)?);
    Some(match (is_made, version) {
        (Value::Int(1), version) => Defined::Done {
            changed: version > 0,
            version,
        },
        (_, 0) => Defined::Conflict(None),
        (_, version) => {
            let (value, left) = (text(parts.next()?)?, lasting(parts.next()?)?);
            Defined::Conflict(Some(Definition {
                lasts: left,
                ..Definition::new(key, value).at_version(version)
            }))
        }
    })
}

/// A definition of its version, its value and what is left to it; one that is over is gone.
fn kept(key: Vec<u8>, [version, value, left]: [Value; 3]) -> Option<Definition> {
    Some(Definition {
        key,
        value: text(value),
        lasts: lasting(left)?,
        version: number(version)?,
    })
}

/// Keys, versions, values and what is left to each.
fn together(lists: [Value; 4]) -> Option<Vec<Definition>> {
    let [keys, versions, values, left] = lists.map(listed);
    let parts = versions?.into_iter().zip(values?).zip(left?);
    let all = keys?.into_iter().zip(parts);
    all.map(|(key, ((version, value), left))| kept(text(key)?, [version, value, left]))
        .collect()
}

fn read_page(answer: Value) -> Option<Page<Definition>> {
    let [next, keys, versions, values, left] = <[Value; 5]>::try_from(listed(answer)?).ok()?;
    Some(Page {
        items: together([keys, versions, values, left])?,
        next: text(next),
    })
}

fn read_events(answer: Value) -> Option<Page<Event>> {
    let [next, events] = <[Value; 2]>::try_from(listed(answer)?).ok()?;
    let next = text(next).and_then(|next| decimal(&next));
    let events = listed(events)?.into_iter().map(|event| {
        let parts = <[Value; 6]>::try_from(listed(event)?).ok()?;
        let [version, at, left, most, subject, body] = parts;
        Some(Event {
            version: number(version)?,
            at: Timestamp::from_micros(number(at)?.cast_signed()),
            lasts: lasting(left)?.unwrap_or_default(),
            most: u32::try_from(number(most)?).ok()?,
            subject: text(subject)?,
            body: text(body)?,
        })
    });
    Some(Page {
        items: events.collect::<Option<_>>()?,
        next: next.map(event_cursor),
    })
}

/// What has changed, without what is whole; and the server's clock.
fn answered(answer: Value, newer_than: u64) -> Option<(Definitions, u64)> {
    let parts = <[Value; 7]>::try_from(listed(answer)?).ok()?;
    let [version, is_noted, now, keys, versions, values, left] = parts;
    let is_noted = matches!(is_noted, Value::Int(1));
    let mut since = Definitions::since(newer_than, number(version)?, is_noted);
    since.changed = together([keys, versions, values, left])?;
    Some((since, number(now)?))
}

/// The version of the last change, which is all that is answered; 0 if there is none.
fn last_version(answer: Value) -> Option<u64> {
    match listed(answer)?.into_iter().next() {
        None => Some(0),
        Some(last) => decimal(text(last)?.split(|&byte| byte == b' ').next()?),
    }
}

fn shared(bytes: impl AsRef<[u8]>) -> Arc<[u8]> {
    bytes.as_ref().into()
}

fn listed(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// A number of microseconds as text; `None` within if there is none.
fn lasting(value: Value) -> Option<Option<Duration>> {
    match value {
        Value::Nil => Some(None),
        value => Some(Some(Duration::from_micros(number(value)?))),
    }
}

/// A number as text; 0 if there is none.
fn number(value: Value) -> Option<u64> {
    match value {
        Value::Nil => Some(0),
        value => decimal(&text(value)?),
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}
