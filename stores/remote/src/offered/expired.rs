//! Definitions that are over, in a store that has no clock of its own: some are looked at with
//! each new one that lasts for a while, and those that are over are removed.

use std::collections::HashMap;

use parking_lot::Mutex;
use tidegate_store::core::Timestamp;
use tidegate_store::{Change, Definition, Store, StoreError};

use super::lasting;

/// So many are looked at with each that is made: they become fewer, though each may be over.
const MOST_LOOKED_AT: usize = 8;

/// Of so many owners it is known where to go on; with more, all begin anew.
const MOST_OWNERS: usize = 10_000;

/// Behind which key of each owner to go on.
#[derive(Debug, Default)]
pub(super) struct Expired(Mutex<HashMap<String, Vec<u8>>>);

impl Expired {
    /// What is to be made so that nothing that is over by `now` is kept of the owner's next few.
    pub(super) async fn next(
        &self,
        store: &dyn Store,
        owner: &str,
        now: Timestamp,
    ) -> Result<Vec<Change>, StoreError> {
        let after = self.0.lock().remove(owner);
        let page = store.definitions_page(owner, b"", after.as_deref(), MOST_LOOKED_AT);
        let page = page.await?;
        if let Some(next) = page.next {
            let mut behind = self.0.lock();
            if behind.len() >= MOST_OWNERS {
                behind.clear();
            }
            behind.insert(owner.to_owned(), next);
        }
        let is_over = |one: &Definition| lasting::told(one.clone(), now).value.is_none();
        let over = page.items.into_iter().filter(is_over);
        // One that was made anew meanwhile stays.
        let removal = |one: Definition| {
            let version = one.version;
            Change::from(Definition::none(one.key)).expecting(version)
        };
        Ok(over.map(removal).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::sync::{Arc, Weak};
    use std::time::Duration;

    use tidegate_memory::MemoryStore;
    use tidegate_store::{Alarm, Timer, TimerHandler};

    use super::super::Offered;
    use super::*;
    use crate::wire::Request;

    #[derive(Debug)]
    struct Clock(AtomicI64);

    impl Timer for Clock {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.0.load(Ordering::SeqCst))
        }

        fn set(&self, at: Timestamp, _: Weak<dyn TimerHandler>) -> Alarm {
            Alarm { at, number: 0 }
        }

        fn unset(&self, _: Alarm) {}
    }

    #[tokio::test]
    async fn definitions_that_are_over_make_room_for_new_ones() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let clock = Arc::new(Clock(AtomicI64::new(1_700_000_000_000_000)));
        let timer = Arc::clone(&clock) as Arc<dyn Timer>;
        let offered = Offered::new(Arc::clone(&store), timer);
        let define = async |key: String, lasts: u64| {
            let definition = Definition::new(key, "v").lasting(Duration::from_secs(lasts));
            let change = Request::Change("own", definition.into()).written();
            offered.answer(&change).await.expect("it can be read");
        };
        let kept = async || {
            let all = store.definitions("/offered/own", 0).await;
            all.expect("they are there").changed.len()
        };
        for number in 0..100 {
            define(format!("a{number}"), 1).await;
        }
        define("z".to_owned(), 100_000).await;
        assert_eq!(kept().await, 101);
        clock.0.fetch_add(3_600_000_000, Ordering::SeqCst);
        for number in 0..20 {
            define(format!("b{number}"), 1_000).await;
        }
        assert_eq!(kept().await, 21);
    }
}
