//! Random limits and random pasts, small enough that boundaries are met often.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Algorithm, Lease, Limit, LimitSet, LimitSetBuilder, ManualClock, Period, Standing};

/// The keys of a history, two of one organisation.
pub const KEYS: [&str; 3] = ["acme/alice", "acme/bob", "zeta/carol"];

/// The other laws of the workspace are cheaper: these run a thirtieth as often.
pub fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: (default.cases / 30).max(32),
        failure_persistence: None,
        ..default
    }
}

pub fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A limit of any kind but slots, called `name`.
pub fn rate(name: &'static str) -> impl Strategy<Value = Limit> {
    (0..6, 1_u64..9, 1_000_u64..5_000).prop_map(move |(kind, count, period)| {
        let rolling = Limit::rate(name, count, micros(period));
        match kind {
            0 => rolling.algorithm(Algorithm::FixedWindow),
            1 => rolling.algorithm(Algorithm::SlidingWindow).sub_windows(3),
            2 => rolling.algorithm(Algorithm::SlidingLog),
            3 => Limit::budget(name, count, Period::day("UTC")),
            _ => Limit::rate(name, count, micros(period)).burst(count + period % 5),
        }
    })
}

/// A set over two levels: a rate and slots for all, a rate and slots for each.
pub fn sets() -> impl Strategy<Value = Vec<Limit>> {
    (rate("all"), rate("each"), 2_u64..6, 1_u64..4).prop_map(|(all, each, many, few)| {
        let slots = |name, count| Limit::concurrency(name, count).ttl(micros(3_000));
        vec![
            all.at_level("org"),
            slots("many", many).at_level("org"),
            each,
            slots("few", few),
        ]
    })
}

pub fn builder(time: &ManualClock, limits: Vec<Limit>) -> LimitSetBuilder {
    let levels = if limits.len() > 1 {
        &["org", "user"][..]
    } else {
        &[]
    };
    let builder = LimitSet::builder().levels(levels.iter().copied());
    builder.limits(limits).clock(time.clock())
}

/// What a step of a past does, to which key, and how long after the last.
pub type Deed = (u8, usize, u64, u64);

pub fn past() -> impl Strategy<Value = Vec<Deed>> {
    prop::collection::vec((0_u8..6, 0..KEYS.len(), 1_u64..4, 0_u64..1_200), 0..30)
}

/// Lives through `past`; what is held at its end.
pub fn live(set: &LimitSet, time: &ManualClock, past: &[Deed]) -> Vec<Lease> {
    let mut held = Vec::new();
    for &(deed, key, amount, gap) in past {
        time.advance(micros(gap));
        step(set, &mut held, (deed, KEYS[key], amount));
    }
    held
}

fn step(set: &LimitSet, held: &mut Vec<Lease>, (deed, key, amount): (u8, &str, u64)) {
    match deed {
        0..3 => held.extend(
            set.try_acquire(key, amount)
                .wait()
                .ok()
                .and_then(|a| a.granted()),
        ),
        3 if !held.is_empty() => {
            let mut lease = held.swap_remove(amount as usize % held.len());
            lease
                .settle(&[("each", amount)])
                .wait()
                .expect("it was held");
        }
        4 => drop(set.debit(key, &[("each", amount)])),
        _ => held.truncate(held.len().saturating_sub(1)),
    }
}

/// All that can be told of every key from the outside.
pub fn faces(set: &LimitSet) -> Vec<Vec<(String, Standing)>> {
    let face = |key: &&str| {
        let decision = set.peek(*key, 1).wait().expect("a peek is answered");
        let standings = decision.standings();
        standings.map(|(name, s)| (name.to_owned(), s)).collect()
    };
    KEYS.iter().map(face).collect()
}
