//! A course: the calls, the provider's limit, and when that changes.

use std::time::Duration;

use tidegate_core::{Span, Timestamp};
use tidegate_llm::Provider as Dialect;
use tidegate_sim::limit::{Kind, Limit, Unit};
use tidegate_sim::settings::{Change, Pace, Settings};

use crate::traffic::Ask;

/// When the provider and everybody else begin: a multiple of a minute.
pub const BEGIN: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// The provider's limits are of a minute.
pub const PERIOD: Duration = Duration::from_secs(60);

/// The provider's limit on calls, which no course reaches: it is there so that headers tell of calls, too.
const CALLS: u64 = 100_000;

/// A caller gives up after so long.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A course.
#[derive(Clone, Debug)]
pub struct Course {
    /// What comes when.
    pub calls: Vec<Ask>,
    /// How the provider counts.
    pub kind: Kind,
    /// Tokens a minute, at the beginning.
    pub limit: u64,
    /// From then on so many, in order of time.
    pub changes: Vec<(Duration, u64)>,
    /// From when until when a client that knew the limit would have calls waiting all the time: what
    /// is used of the limit is measured between the two.
    pub busy: (Duration, Duration),
}

/// Calls want so much more than the limit refills in the time that they take to come, in percent of it.
const DEMAND: u128 = 130;

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

impl Course {
    /// The whole trace: callers want 130 % of the limit. The trace comes in bursts, with minutes in which
    /// nothing comes: from minute 4 to 48 there is always something left of the bursts before.
    #[must_use]
    pub fn hour(calls: Vec<Ask>) -> Self {
        Self::of(calls, (minutes(4), minutes(48)))
    }

    /// The first 16 minutes alone, with 130 % of the limit again.
    #[must_use]
    pub fn short(mut calls: Vec<Ask>) -> Self {
        calls.retain(|call| call.at < minutes(16));
        Self::of(calls, (minutes(4), minutes(16)))
    }

    fn of(calls: Vec<Ask>, busy: (Duration, Duration)) -> Self {
        let wanted: u64 = calls.iter().map(Ask::tokens).sum();
        let span = calls.last().map_or(PERIOD, |call| call.at.max(PERIOD));
        let limit = u128::from(wanted) * PERIOD.as_millis() * 100 / (span.as_millis() * DEMAND);
        Self {
            calls,
            kind: Kind::Bucket,
            limit: u64::try_from(limit).unwrap_or(u64::MAX).max(1),
            changes: Vec::new(),
            busy,
        }
    }

    /// The same, but that the limit is halved at a third of the busy time and doubled at two thirds.
    #[must_use]
    pub fn changing(mut self) -> Self {
        let (from, to) = self.busy;
        let third = (to - from) / 3;
        self.changes = vec![
            (from + third, self.limit / 2),
            (from + 2 * third, self.limit / 2 * 2),
        ];
        self
    }

    /// Where a client begins that knows nothing: four times as high.
    #[must_use]
    pub const fn wrong_start(&self) -> u64 {
        self.limit * 4
    }

    /// What it is, in a line.
    #[must_use]
    pub fn said(&self) -> String {
        let wanted: u64 = self.calls.iter().map(Ask::tokens).sum();
        let last = self.calls.last().map_or(PERIOD, |call| call.at);
        format!(
            "{} calls that want {wanted} tokens in {:.1} minutes, of a provider that admits {} a minute",
            self.calls.len(),
            last.as_secs_f64() / 60.0,
            self.limit
        )
    }

    /// The limit at an instant.
    #[must_use]
    pub fn limit_at(&self, at: Duration) -> u64 {
        let known = self.changes.iter().rev().find(|(from, _)| *from <= at);
        known.map_or(self.limit, |(_, limit)| *limit)
    }

    /// How many tokens the limit refills between two instants.
    #[must_use]
    pub fn refilled(&self, (from, to): (Duration, Duration)) -> f64 {
        let inner = self.changes.iter().map(|(at, _)| *at);
        let mut edges: Vec<Duration> = inner.filter(|at| from < *at && *at < to).collect();
        edges.insert(0, from);
        edges.push(to);
        let part =
            |pair: &[Duration]| (pair[1] - pair[0]).as_secs_f64() * self.limit_at(pair[0]) as f64;
        edges.windows(2).map(part).sum::<f64>() / PERIOD.as_secs_f64()
    }

    /// The provider: Azure's headers, which tell whole seconds, and what Azure charges: prompt and
    /// bound, when a call comes.
    #[must_use]
    pub fn provider(&self) -> Settings {
        let kind = self.kind;
        let limit = |unit, capacity| Limit {
            unit,
            capacity,
            period: Span::from(PERIOD),
            kind,
        };
        let change = |(after, capacity): &(Duration, u64)| Change {
            after: Span::from(*after),
            limit: limit(Unit::Tokens, *capacity),
        };
        let longest = self.calls.iter().map(|call| call.output).max().unwrap_or(1);
        Settings {
            limits: vec![
                limit(Unit::Requests, CALLS),
                limit(Unit::Tokens, self.limit),
            ],
            changes: self.changes.iter().map(change).collect(),
            pace: PACE,
            // An answer goes to its bound.
            output: longest..=longest,
            ..Settings::of(Dialect::AzureOpenAi)
        }
    }
}

/// How fast answers come.
pub const PACE: Pace = Pace {
    first: Span::from_micros(200_000),
    gap: Span::from_micros(20_000),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_limit_refills_follows_its_changes() {
        let minute = |minutes| PERIOD * minutes;
        let course = Course {
            calls: vec![],
            kind: Kind::Bucket,
            limit: 100,
            changes: vec![(minute(2), 50), (minute(3), 200)],
            busy: (minute(0), minute(4)),
        };
        assert_eq!(course.limit_at(minute(2)), 50);
        assert_eq!(course.refilled(course.busy), 450.0);
        assert_eq!(course.refilled((minute(1), minute(2))), 100.0);
    }
}
