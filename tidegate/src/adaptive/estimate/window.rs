//! Samples gathered until they say something.

use tidegate_core::{Span, Timestamp};

use super::super::Sample;
use crate::outcome::Outcome;

/// When a window is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fullness {
    /// From so many samples on.
    pub samples: u64,
    /// Not before so long.
    pub shortest: Span,
    /// After so long with what there is, from a fifth of the samples on.
    pub longest: Span,
}

/// The samples of some time.
#[derive(Clone, Debug)]
pub(super) struct Window {
    fullness: Fullness,
    /// When its first sample came.
    since: Option<Timestamp>,
    sum: f64,
    in_flight: u128,
    most_in_flight: u64,
    succeeded: u64,
    dropped: u64,
}

/// What a window that is full says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathered {
    /// The mean signal in microseconds; none if all was dropped.
    pub mean: Option<f64>,
    /// In flight on the average, at least 1.
    pub in_flight: f64,
    /// In flight at most.
    pub most_in_flight: f64,
    /// What share was dropped.
    pub dropped: f64,
}

impl Window {
    pub const fn new(fullness: Fullness) -> Self {
        Self {
            fullness,
            since: None,
            sum: 0.0,
            in_flight: 0,
            most_in_flight: 0,
            succeeded: 0,
            dropped: 0,
        }
    }

    /// Takes a sample in; what the window says, if it is full with it.
    pub fn with(&mut self, sample: &Sample, at_least: Span) -> Option<Gathered> {
        // A clock that steps back goes on from there.
        let since = self.since.map_or(sample.at, |since| since.min(sample.at));
        self.since = Some(since);
        match sample.outcome {
            Outcome::Succeeded => {
                self.succeeded += 1;
                self.sum += sample.micros();
            }
            Outcome::Dropped => self.dropped += 1,
            Outcome::Ignored => return None,
        }
        self.in_flight += u128::from(sample.in_flight);
        self.most_in_flight = self.most_in_flight.max(sample.in_flight);
        let (all, age) = (self.succeeded + self.dropped, sample.at.since(since));
        let Fullness {
            samples,
            shortest,
            longest,
        } = self.fullness;
        let is_full = all >= samples && age >= shortest.max(at_least).min(longest);
        // Calls may be so long that few end: then it takes longer, and not for ever.
        if !is_full && (age < longest || all < samples.div_ceil(5)) {
            return None;
        }
        let gathered = self.gathered(all);
        *self = Self::new(self.fullness);
        Some(gathered)
    }

    fn gathered(&self, all: u64) -> Gathered {
        let of_succeeded = |sum: f64| sum / self.succeeded as f64;
        Gathered {
            mean: (self.succeeded > 0).then(|| of_succeeded(self.sum)),
            in_flight: (self.in_flight as f64 / all as f64).max(1.0),
            most_in_flight: self.most_in_flight as f64,
            dropped: self.dropped as f64 / all as f64,
        }
    }
}
