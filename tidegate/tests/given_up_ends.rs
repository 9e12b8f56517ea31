//! A lease whose end was given up before the store had answered.
#![allow(
    clippy::disallowed_methods,
    reason = "renewals are a thread of their own, by a clock that the test moves"
)]

use std::future::{Future, IntoFuture, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tidegate::{Limit, LimitSet, ManualClock};
use tidegate_memory::MemoryStore;
use tidegate_store::{
    Abilities, Command, Execution, Op, Out, Plan, Store, StoreError, StoreFuture, Table, Verb,
};

const TTL: Duration = Duration::from_secs(30);

/// Ends are lost on their way while it hangs.
#[derive(Clone, Default)]
struct Hanging {
    store: Arc<MemoryStore>,
    hangs: Arc<AtomicBool>,
}

struct HangingTable {
    table: Arc<dyn Table>,
    hangs: Arc<AtomicBool>,
}

impl Store for Hanging {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Ok(Arc::new(HangingTable {
            table: self.store.open(name, plan)?,
            hangs: Arc::clone(&self.hangs),
        }))
    }
}

impl Table for HangingTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let is_end = matches!(command.op, Op::One(_, Verb::End { .. }));
        match is_end && self.hangs.load(Ordering::SeqCst) {
            true => StoreFuture::new(pending()).into(),
            false => self.table.execute(command, out),
        }
    }
}

#[test]
fn a_lease_whose_end_was_given_up_is_kept_alive_further() {
    let (clock, store) = (ManualClock::default(), Hanging::default());
    let set = LimitSet::builder()
        .limit(Limit::concurrency("jobs", 1))
        .store(Arc::new(store.clone()))
        .clock(clock.clock())
        .build()
        .expect("sound");
    let job = set.try_acquire("k", ()).wait().expect("an answer");
    let mut job = job.granted().expect("there is room");
    job.keep_alive(TTL).wait().expect("it is held");
    store.hangs.store(true, Ordering::SeqCst);
    {
        let end = pin!(job.settle(()).into_future());
        let given_up = end.poll(&mut Context::from_waker(Waker::noop()));
        assert!(given_up.is_pending());
    }
    store.hangs.store(false, Ordering::SeqCst);
    for _ in 0..6 {
        let before = job.sure_until();
        clock.advance(TTL / 3);
        for tried in 0.. {
            if job.sure_until() > before {
                break;
            }
            assert!(tried < 20_000, "nobody renews it");
            thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(job.is_held());
    job.settle(()).wait().expect("it was held");
}
