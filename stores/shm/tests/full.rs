//! A segment that is full: what is spent makes room, and what is not stays.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::Dir;
use tidegate::{DecisionError, Limit, LimitSet, Request, StoreError};
use tidegate_shm::{Options, ShmStore};

const FOREVER: Duration = Duration::from_secs(400 * 86_400);

/// The smallest.
const SIZE: usize = 4 << 20;

fn store(dir: &Dir) -> Arc<ShmStore> {
    let options = Options {
        size: SIZE,
        ..support::options(dir.path())
    };
    Arc::new(ShmStore::open("test", options).expect("a segment"))
}

fn set(store: &Arc<ShmStore>, name: &str, limit: Limit) -> LimitSet {
    let set = LimitSet::builder().name(name).limit(limit);
    set.store(Arc::clone(store) as _).build().expect("sound")
}

#[test]
fn no_count_is_lost_for_want_of_room() {
    let dir = Dir::default();
    let store = store(&dir);
    let budget = set(&store, "budget", Limit::budget("calls", 2, FOREVER));
    let slots = set(&store, "slots", Limit::concurrency("slot", 1).ttl(FOREVER));
    let key = |number: usize| format!("key {number}");
    let held = slots.try_acquire("k", Request::default()).wait();
    let mut held = held.expect("an answer").granted().expect("it is free");
    let mut kept = Vec::new();
    for number in 0..100_000 {
        match budget.check(key(number).as_str(), 1).wait() {
            Ok(decision) => {
                assert!(decision.admitted());
                kept.push(number);
            }
            Err(DecisionError::Store(StoreError::Full(why))) => {
                assert!(why.contains("as ?size=8 (MiB)"), "{why}");
            }
            Err(other) => panic!("{other:?}"),
        }
        if number > 2 * kept.len() + 1_000 {
            break;
        }
    }
    assert!(kept.len() > 2_000, "{}", kept.len());
    for number in kept {
        let left = budget.peek(key(number).as_str(), 1).wait();
        let left = left.expect("an answer");
        assert_eq!(left.standing("calls").expect("its own").remaining, 1);
    }
    // What gives something back needs no room.
    held.release().wait().expect("held");
}

#[test]
fn what_is_remembered_of_ended_leases_makes_room_and_held_ones_stay() {
    let dir = Dir::default();
    let store = store(&dir);
    let slots = set(&store, "slots", Limit::concurrency("slot", 2).ttl(FOREVER));
    let held = slots.try_acquire("k", Request::default()).wait();
    let mut held = held.expect("an answer").granted().expect("it is free");
    let mut last = None;
    for number in 0..20_000_u32 {
        let name = number.to_le_bytes();
        let request = Request::default().idempotency(&name);
        let lease = slots.try_acquire("k", request).wait();
        let mut lease = lease.expect("room").granted().expect("it is free");
        lease.release().wait().expect("held");
        last = Some(lease.id());
    }
    let again = slots.release("k", last.expect("many")).wait();
    assert!(again.expect("the last is remembered").repeated());
    held.release().wait().expect("held");
}

#[test]
fn keys_that_are_spent_make_room() {
    let dir = Dir::default();
    let store = store(&dir);
    let calls = Limit::calls("calls", 1, Duration::from_millis(1)).burst(1);
    let (spent, budget) = (
        set(&store, "spent", calls),
        set(&store, "budget", Limit::budget("calls", 2, FOREVER)),
    );
    assert!(budget.check("stays", 1).wait().expect("room").admitted());
    let mut full = 0;
    for number in 0..40_000 {
        let key = format!("key {number}");
        match spent.check(key.as_str(), 1).wait() {
            Ok(decision) => assert!(decision.admitted()),
            // All of the last moment's are in use.
            Err(DecisionError::Store(StoreError::Full(_))) => full += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(full < 20_000, "{full}");
    let left = budget.peek("stays", 1).wait().expect("an answer");
    assert_eq!(left.standing("calls").expect("its own").remaining, 1);
}

/// Leases are held in all shards when nothing more fits; each is given back all the same, and
/// is remembered.
#[test]
fn what_gives_back_finds_room() {
    let dir = Dir::default();
    let store = store(&dir);
    let slots = set(&store, "slots", Limit::concurrency("slot", 99).ttl(FOREVER));
    let mut held = Vec::new();
    let mut full = 0;
    for number in 0.. {
        let key = format!("key {}", number % 700);
        match slots.try_acquire(key.as_str(), Request::default()).wait() {
            Ok(granted) => held.extend(granted.granted()),
            Err(DecisionError::Store(StoreError::Full(_))) => full += 1,
            Err(other) => panic!("{other:?}"),
        }
        if full > 2_000 {
            break;
        }
    }
    assert!(held.len() > 2_000, "{}", held.len());
    for mut lease in held {
        lease.release().wait().expect("it needs no room");
    }
    let lease = slots.try_acquire("key 1", Request::default()).wait();
    assert!(lease.expect("there is room").granted().is_some());
}

/// Takes a key each until there is no room in any shard.
fn fill(take: impl Fn(&str) -> Result<(), DecisionError>) -> usize {
    let (mut taken, mut full) = (0, 0);
    while full < 2_000 {
        match take(&format!("key {}", taken + full)) {
            Ok(()) => taken += 1,
            Err(DecisionError::Store(StoreError::Full(_))) => full += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    taken
}

/// Leases that stand in place are given records of their own by whoever comes to their root in
/// another way, which finds room.
#[test]
fn leases_of_a_long_key_are_looked_at_and_given_back_in_a_full_segment() {
    for length in [100, 2_000] {
        let dir = Dir::default();
        let store = store(&dir);
        let budget = set(&store, "budget", Limit::budget("calls", 2, FOREVER));
        let slots = set(&store, "slots", Limit::concurrency("slot", 9).ttl(FOREVER));
        let key = "k".repeat(length);
        let take = || {
            let taken = slots.try_acquire(key.as_str(), Request::default()).wait();
            taken.expect("an answer").granted().expect("it is free")
        };
        drop(take());
        let mut held = [take(), take()];
        fill(|key| budget.check(key, 1).wait().map(drop));
        let left = slots.peek(key.as_str(), Request::default()).wait();
        let left = left.expect("a look needs no room");
        assert_eq!(left.standing("slot").expect("its own").remaining, 7);
        held[0].renew(FOREVER).wait().expect("held");
        held[1].release().wait().expect("held");
    }
}

/// A place for leases where none is goes where room is wanted.
#[test]
fn places_of_leases_that_have_ended_make_room() {
    let dir = Dir::default();
    let store = store(&dir);
    let both = LimitSet::builder().name("both");
    let both = both.limit(Limit::budget("calls", 1_000, FOREVER));
    let both = both.limit(Limit::concurrency("slot", 9).ttl(FOREVER));
    let both = both.store(Arc::clone(&store) as _).build().expect("sound");
    let kept = fill(|key| {
        for _ in 0..3 {
            let request = Request::default().cost(1);
            let mut lease = both
                .try_acquire(key, request)
                .wait()?
                .granted()
                .expect("room");
            lease.release().wait().expect("held");
        }
        Ok(())
    });
    assert!(kept > 4_000, "{kept}");
}
