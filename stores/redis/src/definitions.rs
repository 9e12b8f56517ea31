//! What is defined for an owner: a hash, its version and the order of its changes, never
//! dropped with any state.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use redis::{Client, Value};
use tidegate_net::following::{Following, Hearing, Source};
use tidegate_store::{Definition, Definitions, StoreError};
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
pub(crate) struct Defined {
    shared: Arc<Shared>,
    prefix: String,
    following: Following,
}

impl Defined {
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

    /// On which it is told that something was defined; those who may use the channels on
    /// which waiters are woken may use it.
    fn channel(&self) -> String {
        format!("{}defined:{}", wakes::PREFIX, self.prefix)
    }
}

impl Source for Defined {
    /// How often those who follow look whether there is news, if they are not told: within a
    /// second they know.
    const LOOK: Duration = Duration::from_millis(500);

    async fn write(&self, owner: &str, definition: &Definition) -> Result<bool, StoreError> {
        let has_value = if definition.value.is_some() { "1" } else { "0" };
        let lasts = definition.lasts.map(|lasts| lasts.as_micros().to_string());
        let arguments: [Arc<[u8]>; 5] = [
            definition.key.as_slice().into(),
            has_value.as_bytes().into(),
            definition.value.as_deref().unwrap_or_default().into(),
            lasts.unwrap_or_default().into_bytes().into(),
            self.channel().into_bytes().into(),
        ];
        let script = &self.shared.scripts.define;
        let keys = self.keys(owner);
        let kept = self.link().call(script, &keys, &arguments).await?;
        Ok(kept == Value::Int(1))
    }

    async fn versions(&self, owners: &[String]) -> Result<Vec<u64>, StoreError> {
        let version = |owner: &String| {
            let mut request = redis::cmd("HGET");
            let [_, known, ..] = self.keys(owner);
            request.arg(known).arg("version");
            async move {
                number(self.link().query(&request).await?).ok_or_else(|| garbled("no version"))
            }
        };
        try_join_all(owners.iter().map(version)).await
    }

    async fn changes(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let script = &self.shared.scripts.defined;
        let known: Arc<[u8]> = newer_than.to_string().into_bytes().into();
        let keys = self.keys(owner);
        let answer = self.link().call(script, &keys, &[known]).await?;
        let (version, is_whole, changed) = answered(answer).ok_or_else(|| garbled("no changes"))?;
        let changed = match is_whole {
            false => changed,
            true => {
                let left = changed
                    .into_iter()
                    .map(|one| (one.key, one.lasts))
                    .collect();
                scan(self.link(), &keys[0], left).await?
            }
        };
        Ok(Definitions {
            newer_than,
            version,
            whole: is_whole,
            changed,
        })
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

/// All of them, with what is left to those that do not last for good: in pieces, so that
/// the server does something else between two.
async fn scan(
    link: &Link,
    name: &[u8],
    left: HashMap<Vec<u8>, Option<Duration>>,
) -> Result<Vec<Definition>, StoreError> {
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
    let definitions = found.into_iter().map(|(key, value)| Definition {
        lasts: left.get(&key).copied().flatten(),
        key,
        value: Some(value),
    });
    Ok(definitions
        .filter(|one| one.lasts != Some(Duration::ZERO))
        .collect())
}

/// The version, whether it is everything, and what has changed; one that is over is gone.
fn answered(answer: Value) -> Option<(u64, bool, Vec<Definition>)> {
    let Value::Array(parts) = answer else {
        return None;
    };
    let [version, whole, keys, values, left] = <[Value; 5]>::try_from(parts).ok()?;
    let (keys, values, left) = (listed(keys)?, listed(values)?, listed(left)?);
    let changed = keys
        .into_iter()
        .zip(values)
        .zip(left)
        .map(|((key, value), left)| {
            let lasts = match left {
                Value::Nil => None,
                left => Some(Duration::from_micros(number(left)?)),
            };
            let value = text(value).filter(|_| lasts != Some(Duration::ZERO));
            let key = text(key)?;
            Some(Definition { key, value, lasts })
        });
    let changed = changed.collect::<Option<_>>()?;
    Some((number(version)?, matches!(whole, Value::Int(1)), changed))
}

fn listed(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// A number as text; 0 if there is none.
fn number(value: Value) -> Option<u64> {
    match value {
        Value::Nil => Some(0),
        value => str::from_utf8(&text(value)?).ok()?.parse().ok(),
    }
}
