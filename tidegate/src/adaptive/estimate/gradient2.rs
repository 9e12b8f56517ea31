//! The gradient of a short average against a long one.

use tidegate_core::Span;

use super::super::Sample;
use super::average::Average;
use super::bounds::Bounds;
use super::window::{Fullness, Window};

/// What may stand in a queue.
const QUEUE: f64 = 4.0;
/// The signal may be so much longer than the long average before the limit shrinks.
const TOLERANCE: f64 = 1.5;
/// How much of a new limit is taken over at once.
const SMOOTHING: f64 = 0.2;

/// Compares the mean signal of each second with the average of the last 600 (Netflix's
/// concurrency-limits, Gradient2 behind a windowed limit). Drops say nothing to it.
///
/// Under an overload that lasts, the long average becomes that of the overload, and the
/// limit grows until its maximum: that is this algorithm's only bound.
#[derive(Clone, Debug)]
pub(in crate::adaptive) struct Gradient2 {
    window: Window,
    long: Average,
}

impl Gradient2 {
    pub const fn new() -> Self {
        Self {
            window: Window::new(Fullness {
                samples: 10,
                shortest: Span::from_secs(1),
                longest: Span::from_secs(30),
            }),
            long: Average::new(600, 10),
        }
    }

    pub fn next(&mut self, limit: f64, sample: &Sample, bounds: Bounds) -> f64 {
        let gathered = self.window.with(sample, Span::ZERO);
        let Some((gathered, signal)) = gathered.and_then(|all| Some((all, all.mean?))) else {
            return limit;
        };
        let long = self.long.with(signal);
        // It has been longer: come down soon, so that a recovery is seen as one.
        if long / signal > 2.0 {
            self.long.scale(0.95);
        }
        if 2.0 * gathered.most_in_flight < limit {
            return limit;
        }
        let gradient = (TOLERANCE * long / signal).clamp(0.5, 1.0);
        let next = limit * gradient + QUEUE;
        bounds.hold(limit * (1.0 - SMOOTHING) + next * SMOOTHING)
    }
}
