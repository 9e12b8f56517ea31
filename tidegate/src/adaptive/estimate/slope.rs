//! Whether more in flight was more done.

use std::collections::VecDeque;

/// So many windows are remembered.
const WINDOWS: usize = 50;
/// Fewer say nothing.
const FEWEST: usize = 8;
/// What was in flight must have varied by so much (the deviation of its logarithm).
const SPREAD: f64 = 0.01;
/// So many standard errors is sure.
const SURE: f64 = 2.0;

/// What was in flight and what came of it, of the last windows.
#[derive(Clone, Debug)]
pub(super) struct Slope(VecDeque<(f64, f64)>);

/// What more in flight does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// More is done: there is room.
    Throughput,
    /// Each takes longer: the upstream is saturated.
    Queueing,
    /// It cannot be told.
    Unknown,
}

impl Slope {
    pub const fn new() -> Self {
        Self(VecDeque::new())
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes a window in.
    pub fn add(&mut self, in_flight: f64, signal: f64) {
        if self.0.len() == WINDOWS {
            self.0.pop_front();
        }
        // By Little's law throughput is what is in flight over the time that each takes.
        self.0
            .push_back((in_flight.ln(), (in_flight / signal).ln()));
    }

    /// Whether what was in flight has stood still for as long as is remembered.
    pub fn is_flat(&self) -> bool {
        self.0.len() == WINDOWS && self.spread() < SPREAD
    }

    /// The deviation of the logarithm of what was in flight.
    fn spread(&self) -> f64 {
        let n = self.0.len() as f64;
        let mean = self.0.iter().map(|p| p.0).sum::<f64>() / n;
        let squares = self.0.iter().map(|p| (p.0 - mean).powi(2));
        (squares.sum::<f64>() / n).sqrt()
    }

    /// The slope of throughput over what is in flight, both in logarithms, by least
    /// squares: 1 while there is room, 0 once the upstream is saturated. It is told from
    /// one half where it is so by two standard errors.
    pub fn effect(&self) -> Effect {
        let n = self.0.len() as f64;
        if self.0.len() < FEWEST || self.spread() < SPREAD {
            return Effect::Unknown;
        }
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| self.0.iter().map(of).sum::<f64>();
        let (x, y) = (sum(&|p| p.0) / n, sum(&|p| p.1) / n);
        let xx = sum(&|p| (p.0 - x).powi(2));
        let slope = sum(&|p| (p.0 - x) * (p.1 - y)) / xx;
        let rest = sum(&|p| (p.1 - y - slope * (p.0 - x)).powi(2));
        let error = SURE * (rest / (n - 2.0) / xx).sqrt();
        match slope {
            _ if slope - error > 0.5 => Effect::Throughput,
            _ if slope + error < 0.5 => Effect::Queueing,
            _ => Effect::Unknown,
        }
    }
}
