//! Clocks that step back: nothing more is admitted, and nobody is locked up.

use std::sync::Arc;

use tidegate::Store;
use tidegate_core::{Align, Amount, Rule};

use super::key::Key;
use super::kinds::Kind;
use super::past::wait;
use crate::rng::Rng;

const STEPS: usize = 8;
const LONG_STEPS: usize = 30;

/// Right after the step nothing more fits than right before it, and all is back within
/// a refill of the clock's coming back; after a step too far for that, within a refill.
pub(super) fn a_clock_that_steps_back_locks_nobody_up_for_longer_than_a_refill(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    let entries = rng.between(2, 20);
    for kind in Kind::all(rng, entries) {
        let mut key = Key::beside_plenty(store, kind);
        let (capacity, refill) = (kind.rule.capacity(), kind.refill);
        let mut last = key.now;
        for _ in 0..STEPS {
            key.now += wait(rng, &kind);
            if key.take(rng.between(1, capacity)).0.verdict.admitted() {
                last = key.now;
            }
        }
        key.now = key.now.max(last + wait(rng, &kind));
        let (verdict, before) = key.look(capacity);
        let back = rng.below(6_000) as i64 * refill / 1_000;
        key.now = last - back;
        let (again, after) = key.look(capacity);
        let how = format!("{kind:?} stepped back by {back}: {before:?} became {after:?}");
        assert!(after.remaining <= before.remaining, "{how}");
        assert!(verdict.admitted() || !again.admitted(), "{how}");
        let returns = if back > 2 * refill {
            0
        } else {
            back.min(refill)
        };
        key.now += refill + returns;
        assert!(after.full_at.is_none_or(|at| at <= key.at()), "{how}");
        assert!(key.look(capacity).0.admitted(), "{how}");
    }
}

/// What was granted, and when by a clock that only ever counts forward.
type Grants = Vec<(i64, Amount)>;

/// Over a whole wandering history. Twice the capacity may pass around the end of any
/// window; one that is aligned may end out of its turn after a step back by more than
/// its length, and the next soon after it: then it is three times, not more.
pub(super) fn a_clock_that_steps_back_admits_nothing_more_over_a_history(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    let entries = rng.between(2, 20);
    for kind in Kind::all(rng, entries) {
        let grants = grants(store, rng, kind);
        let capacity = kind.rule.capacity();
        let within = |length: i64, times: u64| {
            for (last, &(end, _)) in grants.iter().enumerate() {
                let run = grants[..=last].iter().filter(|(at, _)| end - at < length);
                let granted: Amount = run.map(|(_, amount)| amount).sum();
                assert!(
                    granted <= times * capacity,
                    "{granted} by {kind:?}: {grants:?}"
                );
            }
        };
        match &kind.rule {
            Rule::Bucket(bucket) => {
                let (drain, weight) = (bucket.drain(), bucket.weight());
                within_rate(&grants, drain, weight, capacity);
            }
            Rule::Window(window) if matches!(window.align(), Align::FirstUse(_)) => {
                within(kind.refill, 2);
            }
            Rule::Window(_) => within(kind.refill, 3),
            Rule::Ring(ring) => within(kind.refill - ring.step().as_micros() as i64, 1),
            // Of slots, each is held for its ttl.
            Rule::Log(_) | Rule::Slots(_) => within(kind.refill, 1),
        }
    }
}

fn grants(store: &Arc<dyn Store>, rng: &mut Rng, kind: Kind) -> Grants {
    let mut key = Key::beside_plenty(store, kind);
    let (mut elapsed, mut fence, mut grants) = (0, 0, Grants::new());
    for _ in 0..LONG_STEPS {
        let back = match rng.below(6) {
            0 => rng.below(900),
            1 => rng.below(4_000),
            _ => 0,
        };
        let wait = match back {
            0 => wait(rng, &kind),
            back => -(back as i64 * kind.refill / 1_000),
        };
        key.now += wait;
        elapsed += wait.max(0);
        let amount = rng.between(1, kind.rule.capacity());
        if let (_, Some(taken)) = key.take(amount) {
            grants.push((elapsed, amount));
            assert!(taken.fence > fence || taken.fence == 0, "{kind:?}");
            fence = taken.fence;
        }
    }
    grants
}

/// In every run of neighbours at most `burst + elapsed * drain / weight`.
fn within_rate(grants: &Grants, drain: u64, weight: u64, burst: Amount) {
    for (last, &(end, _)) in grants.iter().enumerate() {
        let mut sum = 0;
        for &(at, amount) in grants[..=last].iter().rev() {
            sum += amount;
            let yields = burst * weight + (end - at).unsigned_abs() * drain;
            assert!(
                sum * weight <= yields,
                "{sum} by {drain}/{weight}: {grants:?}"
            );
        }
    }
}
