//! What came of one course, in numbers.

use std::time::Duration;

use crate::book::Decided;
use crate::course::Course;

/// From then on a client goes by that limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// When.
    pub at: Duration,
    /// Tokens a minute.
    pub limit: u64,
}

/// What came of one course.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What the provider has decided, in order of time.
    pub decided: Vec<Decided>,
    /// How long each call waited until the provider let it in; nothing of one that was given up.
    pub waits: Vec<Option<Duration>>,
    /// What limit the client went by, where it goes by one.
    pub known: Vec<Known>,
}

/// The beginning does not count: a client may have to find out where the limit is.
pub const BEGINNING: Duration = Duration::from_secs(60);

/// The numbers of a row.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// How often the provider was asked, and refused, after the [beginning](BEGINNING).
    pub asked: usize,
    /// See `asked`.
    pub refused: usize,
    /// Of these, how often by a call that was sent after an answer had told the limit then in force.
    pub refused_though_told: usize,
    /// How much of what the limit refilled while calls were waiting was used.
    pub used: f64,
    /// Of the calls of the trace, how many were answered.
    pub answered: f64,
    /// How long half of those that were answered waited at most, and 99 of 100.
    pub waits: (Duration, Duration),
    /// Of each change of the limit, how long the client went by another; nothing where it never
    /// went by the new one while that was in force.
    pub learnt: Vec<Option<Duration>>,
}

impl Outcome {
    /// In numbers.
    #[must_use]
    pub fn numbers(&self, course: &Course) -> Numbers {
        let after = |one: &&Decided| one.at >= BEGINNING;
        let refused = self
            .decided
            .iter()
            .filter(after)
            .filter(|one| !one.admitted);
        let told = self.told(course);
        let is_told = |one: &&Decided| {
            let newest = course
                .changes
                .iter()
                .filter(|(at, _)| *at <= one.at)
                .count();
            told[newest].is_some_and(|told| told < one.at)
        };
        let busy = |one: &&Decided| course.busy.0 <= one.at && one.at < course.busy.1;
        let admitted = self.decided.iter().filter(|one| one.admitted);
        let used: u64 = admitted.filter(busy).map(|one| one.tokens).sum();
        let mut waits: Vec<Duration> = self.waits.iter().flatten().copied().collect();
        waits.sort_unstable();
        Numbers {
            asked: self.decided.iter().filter(after).count(),
            refused: refused.clone().count(),
            refused_though_told: refused.filter(is_told).count(),
            used: used as f64 / course.refilled(course.busy),
            answered: waits.len() as f64 / course.calls.len().max(1) as f64,
            waits: (part(&waits, 50), part(&waits, 99)),
            learnt: self.learnt(course),
        }
    }

    /// When an answer came first that told the limit at the beginning, and each later one.
    fn told(&self, course: &Course) -> Vec<Option<Duration>> {
        let changes = course.changes.iter().map(|(at, _)| *at);
        let begins: Vec<Duration> = std::iter::once(Duration::ZERO).chain(changes).collect();
        let ends = begins.iter().skip(1).copied().chain([Duration::MAX]);
        let told = |(from, to): (&Duration, Duration)| {
            let within = self
                .decided
                .iter()
                .filter(|one| *from <= one.at && one.at < to);
            within.map(|one| one.answered).min()
        };
        begins.iter().zip(ends).map(told).collect()
    }

    fn learnt(&self, course: &Course) -> Vec<Option<Duration>> {
        let changes = course.changes.iter().enumerate();
        let learnt = changes.map(|(nth, (at, limit))| {
            let next = course
                .changes
                .get(nth + 1)
                .map_or(Duration::MAX, |(at, _)| *at);
            let before = self.known.iter().rev().find(|known| known.at <= *at);
            if before.is_some_and(|known| known.limit == *limit) {
                return Some(Duration::ZERO);
            }
            let mut later = self
                .known
                .iter()
                .filter(|known| *at < known.at && known.at < next);
            let known = later.find(|known| known.limit == *limit)?;
            Some(known.at - *at)
        });
        learnt.collect()
    }
}

/// Of sorted waits, the one that so many percent do not exceed.
fn part(waits: &[Duration], percent: usize) -> Duration {
    let at = (waits.len() * percent).div_ceil(100);
    waits.get(at.saturating_sub(1)).copied().unwrap_or_default()
}
