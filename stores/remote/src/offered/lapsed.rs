//! Definitions that are over, in a store that has no clock of its own.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_memory::MemoryStore;
use tidegate_store::core::Timestamp;
use tidegate_store::{Alarm, Definition, Store, Timer, TimerHandler};

use super::Offered;
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
