//! A server in closed form, always saturated: so many slots, each for so long. With more in
//! flight than it has slots, each takes as much longer.

use std::time::Duration;

use tidegate::adaptive::{Estimator, Sample};
use tidegate::{Outcome, Timestamp};

use super::chance::Chance;

/// What the server is at a window.
#[derive(Clone, Copy)]
pub struct Server {
    pub slots: u64,
    /// How long one takes where there is no queue, in microseconds.
    pub micros: f64,
}

/// 50 slots for 10 ms each.
pub const SERVER: Server = Server {
    slots: 50,
    micros: 10_000.0,
};

impl Server {
    /// How long each takes, in microseconds.
    fn micros(self, in_flight: u64) -> f64 {
        self.micros * (in_flight as f64 / self.slots as f64).max(1.0)
    }
}

/// An estimator before a server, window after window.
pub struct Run {
    pub estimator: Estimator,
    /// The noise of a window's signal: its deviation, as a share of it.
    noise: f64,
    /// So many samples that are alike make a window.
    samples: u64,
    now: i64,
    chance: Chance,
}

impl Run {
    /// For an estimator that moves once in a window.
    pub fn windows(estimator: Estimator, noise: f64, seed: u64) -> Self {
        Self {
            estimator,
            noise,
            samples: 50,
            now: 0,
            chance: Chance::new(seed),
        }
    }

    /// For an estimator that moves with each sample, which is a window.
    pub fn samples(estimator: Estimator, noise: f64, seed: u64) -> Self {
        Self {
            samples: 1,
            ..Self::windows(estimator, noise, seed)
        }
    }

    /// Lets a window pass; the limit after it.
    pub fn window(&mut self, server: Server) -> u64 {
        let in_flight = self.estimator.limit();
        let noisy = (1.0 + self.noise * self.chance.normal()).max(0.01);
        let micros = server.micros(in_flight) * noisy;
        for _ in 0..self.samples {
            // The fiftieth comes a second after the first, and ends the window.
            self.now += 20_409;
            self.estimator.observe(&Sample {
                at: Timestamp::from_micros(self.now),
                signal: Duration::from_secs_f64(micros / 1e6),
                in_flight,
                outcome: Outcome::Succeeded,
            });
        }
        self.estimator.limit()
    }

    /// The limits after each of so many windows.
    pub fn limits(&mut self, windows: usize, server: Server) -> Vec<u64> {
        (0..windows).map(|_| self.window(server)).collect()
    }
}
