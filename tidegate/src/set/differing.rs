//! Limits that others have given a set's table, where they differ from those here: servers
//! of one store are to have the same.

use tidegate_core::{Align, Bucket, Rule, Span};
use tidegate_store::{Plan, PlanLimit};

/// A limit that is another here than the store has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Differing {
    /// Its name.
    pub limit: String,
    /// What it is here; nothing if there is no such limit.
    pub here: Option<String>,
    /// What the store had, from whoever used the table last.
    pub there: Option<String>,
}

/// What differs between the limits of `here` and of `there`, by name: their rules and their
/// levels.
pub(super) fn between(here: &Plan, there: &Plan) -> Vec<Differing> {
    let words = |limit: &PlanLimit| in_words(&limit.rule);
    let ours = here.limits().iter().filter_map(|limit| {
        let other = named(there, limit);
        let is_same = other.is_some_and(|o| (&o.rule, o.level) == (&limit.rule, limit.level));
        (!is_same).then(|| Differing {
            limit: limit.name.to_string(),
            here: Some(words(limit)),
            there: other.map(words),
        })
    });
    let theirs = there
        .limits()
        .iter()
        .filter(|limit| named(here, limit).is_none());
    let theirs = theirs.map(|limit| Differing {
        limit: limit.name.to_string(),
        here: None,
        there: Some(words(limit)),
    });
    ours.chain(theirs).collect()
}

fn named<'p>(plan: &'p Plan, limit: &PlanLimit) -> Option<&'p PlanLimit> {
    plan.limits().iter().find(|other| other.name == limit.name)
}

/// A rule as an operator reads it, in the units that the store counts.
fn in_words(rule: &Rule) -> String {
    let per = |capacity: u64, period: Span| format!("{capacity} per {period}");
    match rule {
        Rule::Bucket(bucket) => {
            format!("{}, burst {}", rate(bucket), bucket.capacity())
        }
        Rule::Window(window) => match window.align() {
            Align::Epoch(period) | Align::FirstUse(period) => per(window.capacity(), period),
            Align::Calendar => format!("{} per calendar window", window.capacity()),
        },
        Rule::Ring(ring) => {
            let window = ring.step().as_micros().saturating_mul(ring.steps().into());
            per(ring.capacity(), Span::from_micros(window))
        }
        Rule::Log(log) => per(log.capacity(), log.window()),
        Rule::Slots(slots) => {
            format!("{} at once, ttl {}", slots.capacity(), slots.ttl())
        }
    }
}

/// Per the shortest of the usual periods in which it is a whole number.
fn rate(bucket: &Bucket) -> String {
    let (drain, weight) = (u128::from(bucket.drain()), u128::from(bucket.weight()));
    let whole = |&(micros, _): &(u64, &str)| (drain * u128::from(micros)).is_multiple_of(weight);
    match PERIODS.iter().find(|&period| whole(period)) {
        Some(&(micros, name)) => format!("{} per {name}", drain * u128::from(micros) / weight),
        None => format!("{drain} per {}", Span::from_micros(bucket.weight())),
    }
}

const PERIODS: [(u64, &str); 4] = [
    (1_000_000, "1s"),
    (60_000_000, "1m"),
    (3_600_000_000, "1h"),
    (86_400_000_000, "1d"),
];
