//! What gateways of a store tell each other of learnt limits: definitions, under the limit's name.
//!
//! ```text
//! version u8, is said u8, capacity u64, sent at i64 (microseconds), nth u64, start u64
//! ```
//! Numbers are little-endian.
//!
//! The newest stays, whoever writes last: one after the other is written, and a gateway that knows
//! newer than what the store has got writes that again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::Timestamp;
use tidegate_llm::learnt::{News, Order};
use tidegate_store::{Definition, Definitions, Follower, Store, StoreError, block_on};
use tokio::sync::Notify;
use tracing::warn;

/// As whom a store knows gateways: no service and no set is called so.
pub(super) const OWNER: &str = "gateway";

/// Of so many limits it is known what was told.
const MOST: usize = 4_096;

const VERSION: u8 = 2;

/// What gateways have told, this one too.
pub(super) struct Told {
    store: Option<Arc<dyn Store>>,
    version: AtomicU64,
    newest: Mutex<HashMap<String, Newest>>,
    /// There is something to tell, or something was heard.
    changed: Notify,
    is_closed: AtomicBool,
    /// One definition at a time.
    telling: tokio::sync::Mutex<()>,
}

/// The newest of a limit.
struct Newest {
    news: News,
    /// Whether the store has it, as far as is known.
    is_kept: bool,
}

impl Told {
    /// What is kept in that store, if there is one. If it cannot tell now, it does when it is followed.
    pub(super) fn begin(store: Option<Arc<dyn Store>>) -> Self {
        let told = Self {
            store,
            version: AtomicU64::new(0),
            newest: Mutex::default(),
            changed: Notify::new(),
            is_closed: AtomicBool::new(false),
            telling: tokio::sync::Mutex::default(),
        };
        if let Some(store) = &told.store {
            match block_on(store.definitions(OWNER, 0)) {
                Ok(definitions) => told.follow(&definitions),
                Err(error) => warn!(
                    %error,
                    "the limits that other gateways have learnt could not be read from the store; until they are, the file's numbers hold"
                ),
            }
        }
        told
    }

    fn newest(&self) -> MutexGuard<'_, HashMap<String, Newest>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest that was told of a limit.
    pub(super) fn of(&self, limit: &str) -> Option<News> {
        self.newest().get(limit).map(|newest| newest.news)
    }

    /// The others are to know that, unless they know newer.
    pub(super) fn tell(&self, limit: &str, news: News) {
        if put(&mut self.newest(), limit, news, false) {
            self.changed.notify_one();
        }
    }

    /// Until there is something to tell, or something was heard; also if that was before.
    pub(super) async fn changes(&self) {
        self.changed.notified().await;
    }

    /// Nothing comes after what is to be told now.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.changed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Tells the store whatever it has not got.
    ///
    /// # Errors
    /// The store's: what it has not got is still to be told.
    pub(super) async fn tell_all(&self) -> Result<(), StoreError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let _turn = self.telling.lock().await;
        while let Some((limit, news)) = self.untold() {
            let definition = Definition::new(&*limit, encode(&news));
            // What is heard meanwhile says it better.
            self.keeps(&limit, news, true);
            if let Err(error) = store.define(OWNER, definition).await {
                self.keeps(&limit, news, false);
                return Err(error);
            }
        }
        Ok(())
    }

    fn keeps(&self, limit: &str, news: News, is_kept: bool) {
        let mut all = self.newest();
        if let Some(newest) = all.get_mut(limit).filter(|newest| newest.news == news) {
            newest.is_kept = is_kept;
        }
    }

    fn untold(&self) -> Option<(String, News)> {
        let newest = self.newest();
        let (limit, newest) = newest.iter().find(|(_, newest)| !newest.is_kept)?;
        Some((limit.clone(), newest.news))
    }
}

/// Puts what is newer than what is known. Whether it is.
fn put(all: &mut HashMap<String, Newest>, limit: &str, news: News, is_kept: bool) -> bool {
    let holds = match all.get(limit) {
        Some(known) => news.is_newer_than(&known.news),
        None => all.len() < MOST,
    };
    if holds {
        all.insert(limit.to_owned(), Newest { news, is_kept });
    }
    holds
}

impl Follower for Told {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn follow(&self, definitions: &Definitions) {
        if definitions.newer_than != self.version() {
            return;
        }
        let mut all = self.newest();
        if definitions.whole {
            // What is not among these the store has not got: it may have lost it.
            all.values_mut().for_each(|newest| newest.is_kept = false);
        }
        for definition in &definitions.changed {
            let Ok(limit) = std::str::from_utf8(&definition.key) else {
                continue;
            };
            let kept = definition.value.as_deref().map(decode);
            if let Some(Some(news)) = kept {
                put(&mut all, limit, news, true);
            }
            if let Some(known) = all.get_mut(limit) {
                // What another version wrote stays.
                known.is_kept = kept.is_some_and(|kept| kept.is_none_or(|kept| kept == known.news));
            }
        }
        drop(all);
        self.version.store(definitions.version, Ordering::Release);
        self.changed.notify_one();
    }
}

fn encode(news: &News) -> Vec<u8> {
    let mut out = vec![VERSION, u8::from(news.is_said)];
    out.extend(news.capacity.to_le_bytes());
    out.extend(news.order.at.as_micros().to_le_bytes());
    out.extend(news.order.nth.to_le_bytes());
    out.extend(news.start.to_le_bytes());
    out
}

/// Nothing, of what another version wrote.
fn decode(bytes: &[u8]) -> Option<News> {
    let (&[VERSION, is_said], rest) = bytes.split_first_chunk::<2>()? else {
        return None;
    };
    let (capacity, rest) = rest.split_first_chunk()?;
    let (at, rest) = rest.split_first_chunk()?;
    let (nth, rest) = rest.split_first_chunk()?;
    let start = rest.first_chunk().filter(|_| rest.len() == 8)?;
    Some(News {
        capacity: u64::from_le_bytes(*capacity),
        order: Order {
            at: Timestamp::from_micros(i64::from_le_bytes(*at)),
            nth: u64::from_le_bytes(*nth),
        },
        is_said: is_said == 1,
        start: u64::from_le_bytes(*start),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use tidegate_store::{Abilities, Change, Defined, LocalDefinitions, Plan, StoreFuture, Table};

    use super::*;

    /// Definitions of a store that has nothing else, and takes none while it is away.
    #[derive(Default)]
    struct Kept(LocalDefinitions, AtomicBool);

    impl Store for Kept {
        fn abilities(&self) -> Abilities {
            Abilities {
                durable: false,
                shared: false,
                own_clock: false,
                answers_can_be_lost: false,
                counts_usage: false,
            }
        }

        fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
            at_once(Ok(self.0.definitions(owner, newer_than)))
        }

        fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
            at_once(match self.1.load(Ordering::SeqCst) {
                true => Err(StoreError::Unavailable("it is away".to_owned())),
                false => self.0.change(owner, &change),
            })
        }

        fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
            self.0.follow(owner, follower);
        }

        fn open(&self, _: &str, _: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
            Err(StoreError::Mismatch)
        }
    }

    fn at_once<T: Send + 'static>(answer: Result<T, StoreError>) -> StoreFuture<T> {
        StoreFuture::new(std::future::ready(answer))
    }

    /// Gateways on one store that follow it.
    fn gateways<const N: usize>(store: &Arc<Kept>) -> [Arc<Told>; N] {
        [(); N].map(|()| {
            let told = Arc::new(Told::begin(Some(Arc::clone(store) as Arc<dyn Store>)));
            let weak: Weak<Told> = Arc::downgrade(&told);
            store.follow(OWNER, weak as Weak<dyn Follower>);
            told
        })
    }

    fn news(capacity: u64, at: i64) -> News {
        News {
            capacity,
            order: Order {
                at: Timestamp::from_micros(at),
                nth: 0,
            },
            is_said: true,
            start: 500,
        }
    }

    /// Each of a gateway's news was told by a task of its own, whichever ran first, and so were those
    /// of two gateways: the store kept what was written last, and whoever began then went by it.
    #[test]
    fn the_newest_stays_whoever_writes_last() {
        let store = Arc::new(Kept::default());
        let [one, other] = gateways(&store);
        other.tell("tokens", news(700, 7));
        block_on(other.tell_all()).unwrap();
        // What one had to say was on its way meanwhile.
        let late = Definition::new("tokens", encode(&news(500, 5)));
        block_on(store.define(OWNER, late)).unwrap();
        let [begun] = gateways(&store);
        assert_eq!(begun.of("tokens"), Some(news(500, 5)), "so far");
        block_on(other.tell_all()).unwrap();
        let [begins] = gateways(&store);
        for told in [&one, &other, &begun, &begins] {
            assert_eq!(told.of("tokens"), Some(news(700, 7)));
        }
        let version = store.0.definitions(OWNER, 0).version;
        for told in [&one, &other, &begun, &begins] {
            told.tell("tokens", news(600, 6));
            block_on(told.tell_all()).unwrap();
        }
        assert_eq!(
            store.0.definitions(OWNER, 0).version,
            version,
            "nobody writes"
        );
    }

    /// What a store was told while it was away counted as told.
    #[test]
    fn what_a_store_has_not_taken_is_told_again() {
        let store = Arc::new(Kept::default());
        let [told, other] = gateways(&store);
        store.1.store(true, Ordering::SeqCst);
        told.tell("tokens", news(700, 7));
        assert!(block_on(told.tell_all()).is_err());
        assert_eq!(other.of("tokens"), None);
        store.1.store(false, Ordering::SeqCst);
        block_on(told.tell_all()).unwrap();
        assert_eq!(other.of("tokens"), Some(news(700, 7)));
    }

    /// Of two that are equally new all gateways choose the same, and none writes for ever.
    #[test]
    fn of_two_that_are_equally_new_one_stays() {
        let store = Arc::new(Kept::default());
        let gateways: [_; 2] = gateways(&store);
        gateways[0].tell("tokens", news(700, 7));
        gateways[1].tell("tokens", news(300, 7));
        block_on(gateways[0].tell_all()).unwrap();
        let first = store.0.definitions(OWNER, 0).version;
        for _ in 0..4 {
            for told in &gateways {
                block_on(told.tell_all()).unwrap();
            }
        }
        let kept = gateways.each_ref().map(|told| told.of("tokens"));
        assert_eq!(kept, [Some(news(300, 7)); 2]);
        assert_eq!(store.0.definitions(OWNER, 0).version, first + 1);
    }

    #[test]
    fn what_is_told_is_read_again_and_what_is_none_is_not() {
        let news = News {
            capacity: 700,
            order: Order {
                at: Timestamp::from_micros(1_700_000_000_000_001),
                nth: 7,
            },
            is_said: true,
            start: 500,
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
