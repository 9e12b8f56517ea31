//! Vegas that asks what more in flight has done before it believes a time.

use std::collections::VecDeque;

use tidegate_core::Span;

use super::super::Sample;
use super::average::Average;
use super::bounds::{Bounds, step};
use super::slope::{Effect, Slope};
use super::window::{Fullness, Gathered, Window};

/// The median of so many windows is averaged.
const MEDIAN_OF: usize = 5;
/// How much of the way the baseline follows the signal at once.
const PACE: f64 = 0.1;
/// A window of which a larger share was dropped is one of an upstream that refuses.
const REFUSING: f64 = 0.02;
/// What is left of a limit after such a window.
const BACKOFF: f64 = 0.9;
/// The limit is what holds requests back if so much of it is in use.
const FULL: f64 = 0.9;

/// Vegas over windows, by the mean signal of each: the median of five of them, then an
/// exponential average. That is how Uber's Cinnamon and failsafe-go smooth it, and as there
/// a guard looks at how throughput went with what was in flight. (They take a high quantile; by
/// Little's law it is the mean that tells how many stand in a queue.)
///
/// Here the guard decides alone what the *baseline* is, the signal without a queue. That
/// falls with the signal, and rises only where more in flight was more throughput, which
/// it is not while there is a queue. So a queue never becomes the baseline, and a
/// baseline that has moved is found out while the limit is lowered for it. Where more in
/// flight was not more throughput, the limit is lowered, whatever the baseline.
#[derive(Clone, Debug)]
pub(in crate::adaptive) struct GuardedVegas {
    window: Window,
    medians: VecDeque<f64>,
    average: Average,
    /// The average of the last window, in microseconds; 0 before the first.
    signal: f64,
    baseline: f64,
    slope: Slope,
    /// The queue was too long at the last window.
    is_over: bool,
    /// More in flight has been more throughput, once: the baseline is not that of a queue
    /// which was there from the beginning. Until then a limit that stands still is halved
    /// for a look.
    is_proved: bool,
}

impl GuardedVegas {
    pub const fn new() -> Self {
        Self {
            window: Window::new(Fullness {
                samples: 50,
                shortest: Span::from_secs(1),
                longest: Span::from_secs(30),
            }),
            medians: VecDeque::new(),
            average: Average::new(5, 5),
            signal: 0.0,
            baseline: 0.0,
            slope: Slope::new(),
            is_over: false,
            is_proved: false,
        }
    }

    pub fn next(&mut self, limit: f64, sample: &Sample, bounds: Bounds) -> f64 {
        // A window has to see what came of the last change.
        let two_signals = Span::from_micros((2.0 * self.signal) as u64);
        match self.window.with(sample, two_signals) {
            Some(gathered) => bounds.hold(self.after(limit, &gathered)),
            None => limit,
        }
    }

    /// The limit after a window.
    fn after(&mut self, limit: f64, gathered: &Gathered) -> f64 {
        let is_refusing = gathered.dropped > REFUSING;
        let Some(signal) = gathered.mean.filter(|_| !is_refusing) else {
            self.slope.clear();
            return limit * BACKOFF;
        };
        self.follow(signal);
        let step = step(limit);
        let queued = limit * (1.0 - self.baseline / self.signal);
        let is_over = queued > 6.0 * step;
        if is_over && !self.is_over {
            // What was before says nothing of what is now.
            self.slope.clear();
        }
        self.is_over = is_over;
        if gathered.in_flight >= FULL * limit.floor() {
            self.slope.add(gathered.in_flight, signal);
        }
        let in_flight = gathered.in_flight;
        if in_flight > limit + step || 2.0 * gathered.most_in_flight < limit {
            // What was granted before has yet to end; or there is too little to do.
            return limit;
        }
        // The average lags behind: what the last window alone says may hold a step back.
        let newest = limit * (1.0 - self.baseline / signal);
        self.moved(limit, queued, newest)
    }

    fn moved(&mut self, limit: f64, queued: f64, newest: f64) -> f64 {
        match self.is_over {
            true => self.lowered(limit, queued, newest),
            false => self.raised(limit, queued, newest),
        }
    }

    /// The queue is too long, or the baseline is not what it was.
    fn lowered(&mut self, limit: f64, queued: f64, newest: f64) -> f64 {
        match self.slope.effect() {
            Effect::Throughput => {
                self.baseline = self.signal;
                self.slope.clear();
                limit
            }
            _ if newest < 3.0 * step(limit) => limit,
            _ if queued.min(newest) > limit / 3.0 => limit - limit.sqrt(),
            _ => limit - step(limit),
        }
    }

    /// The queue is short enough, by the baseline.
    fn raised(&mut self, limit: f64, queued: f64, newest: f64) -> f64 {
        let step = step(limit);
        let effect = self.slope.effect();
        self.is_proved |= effect == Effect::Throughput;
        if !self.is_proved && self.slope.is_flat() {
            return limit / 2.0;
        }
        match effect {
            Effect::Queueing => limit - step,
            _ if newest > 6.0 * step => limit,
            _ if queued.max(newest) <= step / 2.0 => limit + limit.sqrt(),
            _ if queued < 3.0 * step => limit + step,
            Effect::Throughput => {
                self.baseline += (self.signal - self.baseline) * PACE;
                limit + step
            }
            Effect::Unknown => limit,
        }
    }

    /// The smoothed signal and the baseline, with one more window.
    fn follow(&mut self, signal: f64) {
        if self.medians.len() == MEDIAN_OF {
            self.medians.pop_front();
        }
        self.medians.push_back(signal);
        let mut sorted: Vec<f64> = self.medians.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        self.signal = self.average.with(sorted[sorted.len() / 2]);
        if self.baseline == 0.0 {
            self.baseline = self.signal;
        }
        self.baseline += (self.signal - self.baseline).min(0.0) * PACE;
    }
}
