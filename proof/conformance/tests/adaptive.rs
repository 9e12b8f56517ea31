//! An adaptive limit of two programs on one store: each estimates by itself, and what it has
//! learnt bounds what both have in flight. Each test has two handles of one store, as two
//! processes have; memory by itself is tried in `tidegate/tests/adaptive`.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::open;
use tidegate::adaptive::{AdaptiveLimit, AdaptivePermit, Estimator};
use tidegate::{Limit, LimitSet, Outcome};
use tidegate_conformance::Beyond;
use tidegate_store::Store;

/// Longer than any signal of these tests, and than a test takes.
const HOUR: Duration = Duration::from_secs(3_600);

fn program(store: Arc<dyn Store>) -> AdaptiveLimit {
    let limit = Limit::concurrency("up", 5).adaptive().ttl(HOUR);
    let set = LimitSet::builder().name("shared").limit(limit).store(store);
    let set = set.build().expect("the store has room");
    AdaptiveLimit::new(set, "up", Estimator::aimd(HOUR)).expect("an adaptive limit")
}

/// One more, unless the store refuses.
fn try_take(limit: &AdaptiveLimit) -> Option<AdaptivePermit> {
    let admission = limit.try_acquire("k", &[("up", 1)]).wait();
    admission.expect("an answer").granted()
}

fn take(limit: &AdaptiveLimit, slots: usize) -> Vec<AdaptivePermit> {
    let taken = (0..slots).map(|_| try_take(limit).expect("it fits"));
    taken.collect()
}

/// Gives it back, and waits until the store has it.
fn end(permit: Option<AdaptivePermit>, outcome: Outcome) {
    let settled = permit.expect("it is held").settle(outcome, ());
    settled.wait().expect("it is held");
}

/// A limit begins at 20, whatever the set says; a success with half of it in flight is one
/// more, a drop a tenth less.
fn what_one_program_learns_bounds_what_both_have_in_flight([one, other]: [Arc<dyn Store>; 2]) {
    let (one, other) = (program(one), program(other));
    let mut ours = take(&one, 10);
    let theirs = try_take(&other);
    ours.extend(take(&one, 9));
    assert!(try_take(&one).is_none() && try_take(&other).is_none());

    // 20 were in flight, of both.
    end(ours.pop(), Outcome::Succeeded);
    assert_eq!((one.limit(), other.limit()), (21, 20));
    ours.extend(take(&one, 2));
    assert!(try_take(&one).is_none());
    // It holds something of its own: it learns from that, and not from what the others hold.
    assert!(try_take(&other).is_none());
    assert_eq!(other.limit(), 20);

    end(theirs, Outcome::Ignored);
    ours.extend(take(&one, 1));
    // It holds nothing now, and 21 are more than its 20.
    assert!(try_take(&other).is_none());
    assert_eq!(other.limit(), 21);

    end(ours.pop(), Outcome::Dropped);
    assert_eq!((one.limit(), other.limit()), (18, 21));
    for _ in 0..2 {
        assert!(try_take(&one).is_none());
        end(ours.pop(), Outcome::Ignored);
    }
    assert!(try_take(&one).is_none(), "18 are in flight");
    end(ours.pop(), Outcome::Ignored);
    ours.extend(take(&one, 1));
    assert!(try_take(&one).is_none());
    assert_eq!(one.limit(), 18);
    assert_eq!(take(&other, 3).len(), 3);
}

#[test]
fn in_shared_memory() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let path = dir.path().display().to_string();
    let stores = [open::shm(&path), open::shm(&path)];
    what_one_program_learns_bounds_what_both_have_in_flight(stores);
}

fn beyond_a_network(server: Option<Beyond>, open: fn(&str) -> Arc<dyn Store>) {
    if let Some(server) = server {
        what_one_program_learns_bounds_what_both_have_in_flight(
            [(); 2].map(|()| open(&server.url)),
        );
    }
}

#[test]
fn on_redis() {
    beyond_a_network(Beyond::redis(), open::redis);
}

#[test]
fn on_postgres() {
    beyond_a_network(Beyond::postgres(), open::postgres);
}

#[test]
fn on_mariadb() {
    beyond_a_network(Beyond::mariadb(), open::mariadb);
}
