//! Requests that wait at several sets at once.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::Store;
use tidegate::{LimitPool, LimitSet, Request};
use tidegate_net::breaker::{BreakerStore, CircuitBreaker, Settings};

use super::{KEY, LONG, Lines, one_slot, opened, run, until};

/// More than failures in a row open a breaker.
const MEMBERS: usize = 8;

/// So many wait at once.
const WAITERS: usize = 24;

/// Each grant to a request that waits at all members ends its waits at the others. The
/// breaker took these for answers that never came: a pool of six members and a few
/// requests that waited made a healthy store "unavailable" for every policy.
pub(super) fn members_at_which_another_was_quicker_are_no_failures_of_the_store<L: Lines>() {
    run(|server: Arc<L>| async move {
        let told = Arc::<Mutex<Vec<String>>>::default();
        let notes = Arc::clone(&told);
        let watcher = move |change, words: &str| notes.lock().push(format!("{change:?}: {words}"));
        let breaker = CircuitBreaker::new(Settings::default(), Some(Arc::new(watcher)));
        let store = BreakerStore::new(opened(&*server), Arc::new(breaker));
        let pool = pool(&(Arc::new(store) as Arc<dyn Store>));
        let mut held = Vec::new();
        for _ in 0..MEMBERS {
            let free = pool.try_acquire(KEY, ()).await.expect("an answer");
            held.extend(free.granted());
        }
        let waits = [(); WAITERS].map(|()| {
            let pool = pool.clone();
            // What is granted comes back at once, for the next.
            tokio::spawn(async move {
                let answer = pool.acquire(KEY, Request::default().within(LONG)).await;
                answer.map(|admission| admission.granted().is_some())
            })
        });
        until(|| pool.statistics().waiting == WAITERS as u64).await;
        drop(held);
        for wait in waits {
            assert_eq!(wait.await.expect("it ends"), Ok(true));
        }
        assert_eq!(*told.lock(), Vec::<String>::new());
    });
}

fn pool(store: &Arc<dyn Store>) -> LimitPool {
    let member = |nth: usize| {
        let set = LimitSet::builder().name(format!("gpus of {nth}"));
        let set = set.store(Arc::clone(store)).limits(one_slot());
        (format!("m{nth}"), set.build().expect("a sound set"))
    };
    let members = (0..MEMBERS).map(member);
    let pool = members.fold(LimitPool::builder(), |pool, (name, set)| {
        pool.member(name, set)
    });
    pool.build().expect("members")
}
