//! A rate that comes with the call instead of a policy.

use std::time::Duration;

use tidegate_core::{Amount, Bucket, Span};

use tidegate::{Algorithm, BuildError, Limit, LimitError};
use tidegate_policy::Policy;

/// The policy whose name stands for all rates that come with the call: in
/// tokens' rights, and in what is measured.
pub const POLICY: &str = tidegate_policy::RESERVED;

/// The limit's name in each of them.
pub const LIMIT: &str = "rate";

/// A rate that comes with the call: `count` units per `period`, of which
/// `capacity` may be used at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    /// The most that may be used at once.
    pub capacity: Amount,
    /// What comes back per period.
    pub count: Amount,
    /// The period, in seconds.
    pub period_secs: u64,
}

impl Rate {
    pub(super) fn period(&self) -> Duration {
        Duration::from_secs(self.period_secs)
    }

    /// The arithmetic, where the numbers are possible.
    pub(super) fn bucket(&self) -> Result<Bucket, BuildError> {
        let bucket = Bucket::new(self.count, Span::from(self.period()), self.capacity);
        bucket.map_err(|wrong| BuildError::Limit {
            limit: LIMIT.into(),
            source: LimitError::Rule(wrong),
        })
    }

    pub(super) fn policy(&self) -> Policy {
        let limit = Limit::rate(LIMIT, self.count, self.period())
            .algorithm(Algorithm::Gcra)
            .burst(self.capacity);
        Policy::unwritten(POLICY, limit)
    }
}
