//! A provider that becomes another, while callers want more than it has.

use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate::adaptive::Estimator;

use super::callers::{Callers, SERVED, Served, Went};

/// For how much of what the provider is like a limit has to settle, in seconds.
const SETTLES: u64 = 200;
const THEN: u64 = 90;
const LOOK: u64 = 60;

const FEW: Served = Served {
    slots: 16,
    ..SERVED
};
const MANY: Served = Served {
    slots: 64,
    ..SERVED
};
const SLOW: Served = Served {
    first: 200,
    ..SERVED
};
const FAST: Served = Served {
    first: 50,
    ..SERVED
};

/// How often so many per cent of a time are added or left out at most, and what is drawn by.
const NOISES: [(f64, u64); 3] = [(0.0, 1), (0.2, 2), (0.5, 3)];

impl Served {
    /// How many streams of 40 tokens its slots serve in so many seconds.
    const fn serves(self, seconds: u64) -> u64 {
        self.slots * seconds * 1_000 / (self.first + 39 * 5)
    }
}

/// What comes of a minute, a minute and a half after `SERVED` has become `next`.
fn after(estimator: Estimator, next: Served, (noise, seed): (f64, u64)) -> Went {
    let parts = [(SETTLES, SERVED), (THEN + LOOK, next)];
    let mut callers = Callers::begin(estimator, &parts, noise, seed);
    callers.pass(SETTLES + THEN);
    callers.pass(LOOK)
}

/// All its limits are within `expected`, and it serves so many per cent of what the slots do.
fn settles(
    estimator: fn() -> Estimator,
    next: Served,
    expected: RangeInclusive<u64>,
    percent: u64,
) {
    for noise in NOISES {
        let went = after(estimator(), next, noise);
        let is_within = went.limits.iter().all(|limit| expected.contains(limit));
        assert!(is_within, "{noise:?}: {:?}, not {expected:?}", went.limits);
        let least = next.serves(LOOK) * percent / 100;
        assert!(
            went.answered >= least,
            "{noise:?}: {}, not {least}",
            went.answered
        );
    }
}

#[test]
fn guarded_vegas_follows_the_slots_and_the_pace() {
    settles(Estimator::guarded_vegas, FEW, 8..=26, 85);
    settles(Estimator::guarded_vegas, MANY, 50..=80, 85);
    settles(Estimator::guarded_vegas, SLOW, 20..=44, 85);
    // Where the pace alone changes it looks further down, to see whether there is a queue.
    settles(Estimator::guarded_vegas, FAST, 12..=48, 75);
}

/// Half a minute after the slots were halved no more are in flight than those take with a short queue.
#[test]
fn guarded_vegas_comes_down_at_once() {
    for (noise, seed) in NOISES {
        let parts = [(SETTLES, SERVED), (60, FEW)];
        let mut callers = Callers::begin(Estimator::guarded_vegas(), &parts, noise, seed);
        callers.pass(SETTLES);
        let limits = callers.pass(60).limits;
        assert!(limits[30..].iter().all(|limit| *limit <= 26), "{limits:?}");
    }
}

fn aimd() -> Estimator {
    Estimator::aimd(Duration::from_millis(250))
}

/// 32 slots of 100 ms serve 80 first tokens in 250 ms, and a limit is told of them as late. The provider
/// has no room for more than 128.
#[test]
fn aimd_follows_what_is_served_within_its_timeout() {
    settles(aimd, SERVED, 64..=128, 95);
    settles(aimd, FEW, 32..=70, 95);
    settles(aimd, MANY, 104..=130, 95);
    settles(aimd, SLOW, 32..=76, 95);
    settles(aimd, FAST, 104..=130, 95);
}

/// It halves its limit for a look now and then. Only of answers that are alike, the shortest is that
/// without a queue.
#[test]
fn vegas_follows_the_slots_and_the_pace_of_answers_that_are_alike() {
    for (next, expected) in [
        (FEW, 5..=42),
        (MANY, 16..=130),
        (SLOW, 5..=76),
        (FAST, 10..=76),
    ] {
        let went = after(Estimator::vegas(), next, (0.0, 1));
        let is_within = went.limits.iter().all(|limit| expected.contains(limit));
        assert!(is_within, "{:?}, not {expected:?}", went.limits);
        assert!(
            went.answered * 4 >= next.serves(LOOK) * 3,
            "{}",
            went.answered
        );
    }
}

/// A long average takes a step for normal some day: until then it comes down.
#[test]
fn gradient2_comes_down_for_a_while() {
    for next in [FEW, SLOW] {
        let went = after(Estimator::gradient2(), next, (0.0, 1));
        let is_within = went.limits.iter().all(|limit| (16..=70).contains(limit));
        assert!(is_within && went.limits.is_sorted(), "{:?}", went.limits);
        assert!(
            went.answered * 20 >= next.serves(LOOK) * 19,
            "{}",
            went.answered
        );
    }
}
