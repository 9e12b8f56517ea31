//! Instants that are exact, and keys that are as good as new.

use std::sync::Arc;

use tidegate::Store;
use tidegate_core::{Standing, Verdict};

use super::key::Key;
use super::kinds::Kind;
use super::past::{Step, wait};
use crate::rng::Rng;

/// Steps of a past, and of a future.
const STEPS: usize = 8;

/// Nothing more is free, or fits, a microsecond before the instant named; at it, it is.
pub(super) fn the_instants_of_a_standing_and_of_a_refusal_are_exact(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    let entries = rng.between(2, 20);
    for kind in Kind::all(rng, entries) {
        let mut key = Key::of(store, kind);
        key.live(&Step::some(rng, &kind, STEPS));
        let capacity = kind.rule.capacity();
        key.take(rng.between(1, capacity));
        let amount = rng.between(1, capacity);
        let (verdict, standing) = key.look(amount);
        let full = Standing::full(capacity);
        let (more, all) = (standing.replenish_at, standing.full_at);
        let (more, all) = (more.expect("it is in use"), all.expect("it is in use"));
        assert!(key.at() < more && more <= all, "{kind:?}");
        let fits_at = match verdict {
            Verdict::NotUntil(at) => at.as_micros(),
            _ => key.now,
        };
        assert_eq!(amount <= standing.remaining, verdict.admitted());
        let (more, all) = (more.as_micros(), all.as_micros());
        let mut instants = [more - 1, more, all - 1, all, fits_at - 1, fits_at];
        instants.sort_unstable();
        let looked_at = key.now;
        for now in instants.into_iter().filter(|&now| now >= looked_at) {
            key.now = now;
            let (later, then) = key.look(amount);
            let how = format!("{kind:?} at {now}: {standing:?} became {then:?}");
            assert_eq!(then.remaining > standing.remaining, now >= more, "{how}");
            assert_eq!(then == full, now >= all, "{how}");
            assert_eq!(later == Verdict::Admit, now >= fits_at, "{how}: {later:?}");
            assert!(
                later == Verdict::Admit || later == verdict,
                "{how}: {later:?}"
            );
        }
    }
}

/// A key that was used, once all that it used is free again, and one never seen.
pub(super) fn stale_state_and_absent_state_decide_alike(store: &Arc<dyn Store>, rng: &mut Rng) {
    let entries = rng.between(2, 20);
    for kind in Kind::all(rng, entries) {
        let mut stale = Key::of(store, kind);
        stale.live(&Step::some(rng, &kind, STEPS));
        let full_at = stale.standing().full_at;
        let full_at = full_at.map_or(stale.now, |at| at.as_micros());
        stale.now = full_at.max(stale.now + kind.refill) + wait(rng, &kind);
        let mut absent = stale.sibling();
        let fence = stale.taken.last().map_or(0, |taken| taken.fence);
        stale.taken.clear();
        for step in Step::some(rng, &kind, STEPS) {
            assert_eq!(
                stale.step(&step),
                absent.step(&step),
                "{step:?} of {kind:?}"
            );
            let grew = stale.taken.iter().all(|t| t.fence == 0 || t.fence > fence);
            assert!(grew, "a fence of {kind:?} is not above {fence}");
        }
        let capacity = kind.rule.capacity();
        assert_eq!(stale.look(capacity), absent.look(capacity), "{kind:?}");
    }
}
