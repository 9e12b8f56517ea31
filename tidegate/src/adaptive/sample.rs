//! What one piece of work said of the upstream.

use std::time::Duration;

use tidegate_core::{Amount, Timestamp};

use crate::outcome::Outcome;

/// What one piece of work said of the upstream when it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When it ended, by a clock that is always the same. If that steps back, time goes on
    /// from there.
    pub at: Timestamp,
    /// How long what is measured took: a time that grows when the upstream has too much to
    /// do, and for no other reason. Less than a microsecond counts as one, more than a year
    /// as a year.
    pub signal: Duration,
    /// What was in flight when it began, itself included, in units of the limit.
    pub in_flight: Amount,
    /// How it went. One that is [`Outcome::Ignored`] changes nothing; of one that was
    /// [`Outcome::Dropped`] the signal counts nowhere.
    pub outcome: Outcome,
}

impl Sample {
    /// The signal in microseconds, within bounds in which quotients are finite.
    pub(super) fn micros(&self) -> f64 {
        const YEAR: f64 = 365.0 * 86_400e6;
        (self.signal.as_secs_f64() * 1e6).clamp(1.0, YEAR)
    }
}
