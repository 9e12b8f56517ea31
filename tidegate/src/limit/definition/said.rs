//! What a limit says of itself, in the words of a policy's file.

use std::time::Duration;

use super::{Kind, Limit};
use crate::limit::Algorithm;

impl Limit {
    /// The word that it begins with.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match (self.kind, self.algorithm) {
            (Kind::Calls, _) => "calls",
            (Kind::Rate, Algorithm::FixedWindow) => "budget",
            (Kind::Rate, _) => "rate",
            (Kind::Concurrency, _) => "concurrency",
        }
    }

    /// Its algorithm, where its word does not say it.
    pub(crate) fn algorithm_word(&self) -> Option<&'static str> {
        let by_calendar = self
            .period
            .as_ref()
            .is_some_and(|period| period.span().is_none());
        Some(match self.algorithm {
            Algorithm::TokenBucket => return None,
            Algorithm::FixedWindow if by_calendar || self.kind == Kind::Rate => return None,
            Algorithm::Gcra => "gcra",
            Algorithm::LeakyBucket => "leaky_bucket",
            Algorithm::FixedWindow => "fixed_window",
            Algorithm::FirstUseWindow => "first_use_window",
            Algorithm::SlidingWindow => "sliding_window",
            Algorithm::SlidingLog => "sliding_log",
        })
    }

    /// How long slots are held, if it says so.
    #[must_use]
    pub const fn held_for(&self) -> Option<Duration> {
        self.ttl
    }

    /// How finely it counts, if it says so.
    pub(crate) fn precision(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = [
            ("sub_windows", self.sub_windows),
            ("max_entries", self.max_entries),
        ];
        let said = |(name, count): (_, Option<u32>)| Some((name, u64::from(count?)));
        counts.into_iter().filter_map(said)
    }
}
