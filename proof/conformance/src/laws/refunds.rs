//! What is given back: as if it had never been taken, too late, and by many.

use std::sync::Arc;

use tidegate_core::{Bucket, Rule, Span};
use tidegate_store::{Ending, Store};

use super::key::Key;
use super::kinds::Kind;
use super::past::{Step, wait};
use crate::model::{Model, Shape};
use crate::rng::Rng;

const STEPS: usize = 8;

/// More leases than a bucket remembers one by one.
const MANY: usize = 45;

/// Beside a key of the same past from which it was never taken.
pub(super) fn what_was_given_back_might_never_have_been_taken(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    for kind in Kind::all(rng, 64) {
        let mut refunded = Key::of(store, kind);
        let mut never = refunded.sibling();
        let past = Step::some(rng, &kind, STEPS);
        refunded.live(&past);
        never.live(&past);
        let free = refunded.await_room();
        let amount = rng.between(1, free);
        let (_, taken) = refunded.take(amount);
        let taken = taken.expect("it is free");
        assert_eq!(refunded.standing().remaining, free - amount, "{kind:?}");
        refunded.now += wait(rng, &kind);
        refunded.end(taken.id, Ending::Cancel).expect("held");
        let capacity = kind.rule.capacity();
        for later in [0, 1, wait(rng, &kind)] {
            refunded.now += later;
            never.now = refunded.now;
            assert_eq!(refunded.look(capacity), never.look(capacity), "{kind:?}");
        }
    }
}

/// What has left a window, or has drained, is nobody's to give back: the next use is
/// another's.
pub(super) fn what_comes_back_too_late_is_nobodys(store: &Arc<dyn Store>, rng: &mut Rng) {
    let entries = rng.between(2, 20);
    for kind in Kind::all(rng, entries) {
        let mut key = Key::of(store, kind);
        key.live(&Step::some(rng, &kind, STEPS));
        key.await_room();
        let late = key.take(1).1.expect("there is room");
        let full_at = key.standing().full_at.expect("it is in use");
        key.now = full_at.as_micros().max(key.now + kind.refill) + wait(rng, &kind);
        let capacity = kind.rule.capacity();
        assert!(key.take(capacity).1.is_some(), "{kind:?} is full again");
        let before = key.look(1);
        key.end(late.id, Ending::Cancel).expect("remembered");
        assert_eq!(key.look(1), before, "{kind:?}");
    }
}

/// Bursts that were taken one after the other, each when the last had drained, and not
/// used after all: nothing of them is left to come back.
pub(super) fn unused_leases_bank_no_burst(store: &Arc<dyn Store>, rng: &mut Rng) {
    let kind = Kind::bucket(rng);
    let mut key = Key::of(store, kind);
    let burst = kind.rule.capacity();
    let mut leases = Vec::new();
    for _ in 0..20 {
        leases.extend(key.take(burst).1);
        key.now += kind.refill;
    }
    assert_eq!(leases.len(), 20);
    assert!(key.take(burst).1.is_some());
    for lease in leases {
        key.end(lease.id, Ending::Cancel).expect("held");
    }
    assert!(!key.look(1).0.admitted(), "{kind:?}");
}

/// More than a bucket remembers one by one, while next to nothing drains.
pub(super) fn of_many_leases_nearly_all_comes_back_and_never_more(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    const BURST: u64 = 1_000;
    let (many, each) = (MANY as u64, rng.between(5, 16));
    let bucket = Bucket::new(1, Span::SECOND, BURST).expect("a sound rate");
    let mut key = Key::of(store, Kind::of(Rule::Bucket(bucket)));
    for _ in 0..many {
        assert!(key.take(each).1.is_some());
        key.now += 1;
    }
    let mut held = many;
    while let Some(lease) = key.taken.pop() {
        key.end(lease.id, Ending::Cancel).expect("held");
        held -= 1;
        let free = BURST - held * each;
        if held.is_multiple_of(10) {
            let remaining = key.standing().remaining;
            assert!(remaining <= free, "{remaining}, and {free} are free");
            assert!(remaining + BURST / 20 >= free, "{remaining} of {free}");
        }
    }
}

/// More than it remembers one by one, each of which had drained but for little when the
/// next one came: beside a model that lists every charge, and knows what has drained.
pub(super) fn what_many_leases_give_back_is_never_too_much(store: &Arc<dyn Store>, rng: &mut Rng) {
    let (burst, each) = (MANY as u64 * 4, MANY as u64 * 2);
    let bucket = Bucket::new(1, Span::MILLISECOND, burst).expect("a sound rate");
    let mut key = Key::of(store, Kind::of(Rule::Bucket(bucket)));
    let unit = Span::MILLISECOND.as_micros() as i64;
    let shape = Shape::Bucket {
        amount: 1,
        period: unit.into(),
    };
    let mut model = Model::new(shape, burst);
    let mut held = Vec::new();
    for number in 0..MANY {
        held.push((key.take(each).1.expect("it fits"), number));
        model.charge(each, key.now, number, 0);
        let left = rng.between(1, 2) as i64;
        key.now += (each as i64 - left) * unit;
    }
    // About the oldest first: after a later one, an earlier one has nothing to give.
    while !held.is_empty() {
        let pick = usize::from(held.len() > 1 && rng.percent(20));
        let (lease, number) = held.remove(pick);
        let used = u64::from(rng.percent(20)) * rng.below(each);
        let settled = key.end(lease.id, Ending::Settle(&[Some(used)]));
        settled.expect("held");
        model.settle(number, each, used, key.now);
        let (theirs, ours) = (key.standing().remaining, model.remaining(key.now));
        assert!(theirs <= ours, "{theirs} of {ours}, {} held", held.len());
    }
}
