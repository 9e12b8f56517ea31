//! Which settings go with which limits.

use tidegate_core::Payment;

use super::{Kind, Limit, OnFailure};
use crate::limit::{Algorithm, LimitError, Unit};

impl Limit {
    /// Checks that what is set means something to a limit of its kind.
    ///
    /// # Errors
    /// [`LimitError::NoSetting`], for the first that does not.
    pub(super) fn check_settings(&self) -> Result<(), LimitError> {
        let is_charged = self.kind != Kind::Concurrency;
        let is = |algorithm| is_charged && self.algorithm == algorithm;
        // Whether it is set, and whether it goes with this limit.
        let settings = [
            ("burst", self.burst.is_some(), self.is_bucket()),
            ("ttl", self.ttl.is_some(), !is_charged),
            (
                "algorithm",
                self.algorithm != Algorithm::TokenBucket,
                is_charged,
            ),
            (
                "sub_windows",
                self.sub_windows.is_some(),
                is(Algorithm::SlidingWindow),
            ),
            (
                "max_entries",
                self.max_entries.is_some(),
                is(Algorithm::SlidingLog),
            ),
            ("postpaid", self.payment == Payment::Postpaid, is_charged),
            (
                "on_failure",
                self.on_failure == OnFailure::Refund,
                is_charged,
            ),
            ("unit", self.unit != Unit::ONE, self.kind == Kind::Rate),
        ];
        let mut wrong = settings.iter().filter(|(_, is_set, fits)| *is_set && !fits);
        match wrong.next() {
            Some(&(setting, ..)) => Err(LimitError::NoSetting {
                setting,
                kind: self.words(setting),
            }),
            None => Ok(()),
        }
    }

    /// Whether it counts by a bucket.
    fn is_bucket(&self) -> bool {
        let is_by_the_clock = self.period.as_ref().is_some_and(|per| per.span().is_some());
        let buckets = [
            Algorithm::TokenBucket,
            Algorithm::Gcra,
            Algorithm::LeakyBucket,
        ];
        is_by_the_clock && buckets.contains(&self.algorithm)
    }

    /// What it is, for a message about a setting that it has not.
    fn words(&self, setting: &str) -> &'static str {
        match (self.kind, self.algorithm) {
            (Kind::Concurrency, _) => "concurrency, which counts what is held",
            (Kind::Calls, _) if setting == "unit" => "calls, which are counted whole",
            _ if setting == "ttl" => "what is charged and not held",
            _ if self.is_bucket() => "a bucket",
            (_, Algorithm::SlidingWindow) => "a sliding window",
            (_, Algorithm::SlidingLog) => "a sliding log",
            _ => "a window",
        }
    }
}
