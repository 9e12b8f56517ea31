//! Requests that wait, and what becomes of their places.

mod support;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use support::{Dir, waits};
use tidegate::{Lease, Limit, LimitPool, LimitSet, Request};
use tidegate_shm::ShmStore;
use tidegate_store::block_on;

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3_600);

fn set_of(store: ShmStore, name: &str) -> LimitSet {
    let slot = Limit::concurrency("slot", 1).ttl(HOUR);
    let set = LimitSet::builder().name(name).limit(slot);
    set.store(Arc::new(store)).build().expect("sound")
}

fn hold(set: &LimitSet, key: &str) -> Lease {
    let lease = set.acquire(key, Request::default().within(PATIENCE));
    let lease = lease.wait().expect("an answer").granted();
    lease.expect("its turn")
}

fn patient() -> Request<'static> {
    Request::default().within(PATIENCE)
}

#[test]
fn who_goes_away_gives_its_place_up() {
    let dir = Dir::default();
    let (here, there) = (set_of(dir.store(), "t"), set_of(dir.store(), "t"));
    let mut held = hold(&here, "k");
    let first = waits(here.acquire("k", patient()));
    let second = waits(there.acquire("k", patient()));
    drop(first);
    held.release().wait().expect("held");
    let second = block_on(second).expect("an answer").granted();
    assert!(second.is_some(), "nobody is before it");
}

#[test]
fn whose_patience_ends_is_refused_and_gives_its_place_up() {
    let dir = Dir::default();
    let set = set_of(dir.store(), "t");
    let mut held = hold(&set, "k");
    let short = Request::default().within(Duration::from_millis(20));
    let short = set.acquire("k", short).wait().expect("an answer");
    assert!(short.granted().is_none());
    held.release().wait().expect("held");
    let again = set.try_acquire("k", Request::default()).wait();
    assert!(again.expect("an answer").granted().is_some());
}

/// Each holds the slot until it has said which it is.
#[test]
fn a_crowd_is_served_in_order_of_arrival() {
    const CROWD: usize = 100;
    let dir = Dir::default();
    let sets = [(); 2].map(|()| set_of(dir.store(), "t"));
    let mut held = hold(&sets[0], "k");
    let waiting: Vec<_> = (0..CROWD)
        .map(|number| waits(sets[number % 2].acquire("k", patient())))
        .collect();
    let (tells, told) = sync_channel(CROWD);
    thread::scope(|scope| {
        for (number, one) in waiting.into_iter().enumerate() {
            let tells = tells.clone();
            scope.spawn(move || {
                let lease = block_on(one).expect("an answer").granted();
                tells.send(number).expect("it is heard");
                lease.expect("its turn").release().wait().expect("held");
            });
        }
        held.release().wait().expect("held");
    });
    drop(tells);
    let order: Vec<usize> = told.iter().collect();
    assert_eq!(order, (0..CROWD).collect::<Vec<_>>());
}

/// Who waits for another row is not kept back.
#[test]
fn siblings_pass_and_those_who_wait_for_the_same_do_not() {
    let dir = Dir::default();
    let set = LimitSet::builder().name("t").levels(["tenant", "user"]);
    let set = set.limits([
        Limit::concurrency("all", 2).ttl(HOUR).at_level("tenant"),
        Limit::concurrency("own", 1).ttl(HOUR).at_level("user"),
    ]);
    let set = set.store(Arc::new(dir.store())).build().expect("sound");
    let mut held = hold(&set, "a/x");
    let waiting = waits(set.acquire("a/x", patient()));
    let is_free = |key: &str| {
        let lease = set.try_acquire(key, Request::default()).wait();
        lease.expect("an answer").granted().is_some()
    };
    assert!(is_free("a/y"), "it needs another row");
    assert!(!is_free("a/x"));
    held.release().wait().expect("held");
    assert!(block_on(waiting).expect("an answer").granted().is_some());
}

/// It stands in the queue of either.
#[test]
fn a_pool_waits_at_all_its_members() {
    let dir = Dir::default();
    let members = ["one", "two"].map(|name| set_of(dir.store(), name));
    let builder = LimitPool::builder();
    let builder = builder.member("one", members[0].clone());
    let builder = builder.member("two", members[1].clone());
    let pool = builder.build().expect("sound");
    for free in [1, 0] {
        let mut held: Vec<Lease> = members.iter().map(|set| hold(set, "k")).collect();
        let wait = || {
            let granted = pool.acquire("k", patient()).wait().expect("an answer");
            granted.granted().is_some()
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(wait);
            held[free].release().wait().expect("held");
            assert!(waiting.join().expect("an answer"));
        });
    }
}

#[test]
fn who_waits_is_served_when_the_limits_are_raised() {
    let dir = Dir::default();
    let set = set_of(dir.store(), "t");
    let _held = hold(&set, "k");
    let waiting = waits(set.acquire("k", patient()));
    let more = Limit::concurrency("slot", 2).ttl(HOUR);
    set.replace_limits(&[more]).expect("sound");
    assert!(block_on(waiting).expect("an answer").granted().is_some());
}

/// Kept back by one row at first, it waited for both; then its rate alone refuses it, and who
/// waits for the other row was told of nothing.
#[test]
fn who_begins_to_wait_for_less_wakes_those_behind() {
    let dir = Dir::default();
    let set = LimitSet::builder().name("t").levels(["tenant", "user"]);
    let set = set.limits([
        Limit::concurrency("all", 1).ttl(HOUR).at_level("tenant"),
        Limit::calls("own", 1, HOUR).at_level("user"),
    ]);
    let set = set.store(Arc::new(dir.store())).build().expect("sound");
    hold(&set, "a/spent").release().wait().expect("held");
    let mut held = hold(&set, "a/holder");
    let long = Request::default().within(2 * HOUR);
    let _spent = waits(set.acquire("a/spent", long));
    let behind = waits(set.acquire("a/behind", patient()));
    // Each asks once more when it has its place: both have, when one that comes later is refused.
    let _other = hold(&set, "b/holder");
    let late = Request::default().within(Duration::from_millis(20));
    let late = set.acquire("b/late", late).wait().expect("an answer");
    assert!(late.granted().is_none());
    held.release().wait().expect("held");
    let behind = block_on(behind).expect("an answer").granted();
    assert!(behind.is_some(), "nobody has the slot");
}
