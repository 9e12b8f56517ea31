//! What gateways of a store tell each other of learnt limits: definitions, under the limit's name.
//!
//! ```text
//! version u8, is said u8, capacity u64, granted at i64 (microseconds), nth u64
//! ```
//! Numbers are little-endian.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::Timestamp;
use tidegate_llm::learnt::{News, Order};
use tidegate_service::Service;
use tidegate_store::{Definition, Definitions, Follower, Store, block_on};
use tracing::warn;

/// As whom a store knows gateways: no service and no set is called so.
pub(super) const OWNER: &str = "gateway";

/// Of so many limits it is known what was told.
const MOST: usize = 4_096;

const VERSION: u8 = 1;

/// What other gateways have told.
pub(super) struct Told {
    store: Option<Arc<dyn Store>>,
    version: AtomicU64,
    news: Mutex<HashMap<String, News>>,
}

impl Told {
    /// What is kept in the service's store. If that cannot tell now, it does when it is followed.
    pub(super) fn begin(service: &Service) -> Self {
        let told = Self {
            store: service.store().cloned(),
            version: AtomicU64::new(0),
            news: Mutex::default(),
        };
        if let Some(store) = &told.store {
            match block_on(store.definitions(OWNER, 0)) {
                Ok(definitions) => told.follow(&definitions),
                Err(error) => warn!(%error, "what other gateways have learnt is not known yet"),
            }
        }
        told
    }

    fn news(&self) -> MutexGuard<'_, HashMap<String, News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest that was told of a limit.
    pub(super) fn of(&self, limit: &str) -> Option<News> {
        self.news().get(limit).copied()
    }

    /// Tells the others. A store that cannot keep it is tried again with the next news.
    pub(super) fn tell(&self, limit: &str, news: &News) -> impl Future<Output = ()> + use<> {
        let definition = Definition::new(limit, encode(news));
        let telling = self
            .store
            .as_ref()
            .map(|store| store.define(OWNER, definition));
        async move {
            if let Some(telling) = telling
                && let Err(error) = telling.await
            {
                warn!(%error, "what was learnt of a limit was not told to other gateways");
            }
        }
    }
}

impl Follower for Told {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn follow(&self, definitions: &Definitions) {
        if definitions.newer_than != self.version() {
            return;
        }
        let mut all = self.news();
        for definition in &definitions.changed {
            let value = definition.value.as_deref().and_then(decode);
            let name = String::from_utf8(definition.key.clone());
            if let (Some(news), Ok(name)) = (value, name)
                && (all.len() < MOST || all.contains_key(&name))
            {
                all.insert(name, news);
            }
        }
        drop(all);
        self.version.store(definitions.version, Ordering::Release);
    }
}

fn encode(news: &News) -> Vec<u8> {
    let mut out = vec![VERSION, u8::from(news.is_said)];
    out.extend(news.capacity.to_le_bytes());
    out.extend(news.order.at.as_micros().to_le_bytes());
    out.extend(news.order.nth.to_le_bytes());
    out
}

/// Nothing, of what another version wrote.
fn decode(bytes: &[u8]) -> Option<News> {
    let (&[VERSION, is_said], rest) = bytes.split_first_chunk::<2>()? else {
        return None;
    };
    let (capacity, rest) = rest.split_first_chunk()?;
    let (at, rest) = rest.split_first_chunk()?;
    let nth = rest.first_chunk().filter(|_| rest.len() == 8)?;
    Some(News {
        capacity: u64::from_le_bytes(*capacity),
        order: Order {
            at: Timestamp::from_micros(i64::from_le_bytes(*at)),
            nth: u64::from_le_bytes(*nth),
        },
        is_said: is_said == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read_again_and_what_is_none_is_not() {
        let news = News {
            capacity: 700,
            order: Order {
                at: Timestamp::from_micros(1_700_000_000_000_001),
                nth: 7,
            },
            is_said: true,
        };
        let bytes = encode(&news);
        assert_eq!(decode(&bytes), Some(news));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        let newer = [&[VERSION + 1], &bytes[1..]].concat();
        assert_eq!((decode(&longer), decode(&newer)), (None, None));
    }
}
