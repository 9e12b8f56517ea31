//! Additive increase, multiplicative decrease.

use std::time::Duration;

use tidegate_core::{Span, Timestamp};

use super::super::Sample;
use super::bounds::Bounds;
use crate::outcome::Outcome;

/// What is left of a limit after a drop.
const BACKOFF: f64 = 0.9;

/// One more for each success while at least half of the limit is in use, a tenth less for
/// a drop, and for a signal longer than `timeout` (Chiu and Jain 1989; the numbers are
/// those of Netflix's concurrency-limits). What had begun before the limit was lowered does
/// not lower it again: it tells of the same overload.
#[derive(Clone, Debug)]
pub(in crate::adaptive) struct Aimd {
    timeout: Duration,
    lowered: Option<Timestamp>,
}

impl Aimd {
    pub const fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            lowered: None,
        }
    }

    pub fn next(&mut self, limit: f64, sample: &Sample, bounds: Bounds) -> f64 {
        let is_dropped = sample.outcome == Outcome::Dropped || sample.signal > self.timeout;
        if is_dropped {
            let began = sample.at - Span::from(sample.signal);
            let is_known = |lowered| began < lowered && lowered <= sample.at;
            if self.lowered.is_some_and(is_known) {
                return limit;
            }
            self.lowered = Some(sample.at);
            return bounds.hold((limit * BACKOFF).floor());
        }
        match 2.0 * sample.in_flight as f64 >= limit {
            true => bounds.hold(limit + 1.0),
            false => limit,
        }
    }
}
