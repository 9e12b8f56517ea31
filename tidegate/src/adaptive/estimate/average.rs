//! An average that forgets.

/// The exponential average over about so many numbers; of the first ones their mean.
#[derive(Clone, Debug)]
pub(super) struct Average {
    over: u32,
    warm_up: u32,
    seen: u32,
    now: f64,
}

impl Average {
    /// Over `over` numbers, of which the first `warm_up` (at least 1) weigh alike.
    pub const fn new(over: u32, warm_up: u32) -> Self {
        Self {
            over,
            warm_up,
            seen: 0,
            now: 0.0,
        }
    }

    /// The average with `number`.
    pub fn with(&mut self, number: f64) -> f64 {
        let weight = if self.seen < self.warm_up {
            self.seen += 1;
            1.0 / f64::from(self.seen)
        } else {
            2.0 / f64::from(self.over + 1)
        };
        self.now += (number - self.now) * weight;
        self.now
    }

    /// Makes it `share` of what it is.
    pub fn scale(&mut self, share: f64) {
        self.now *= share;
    }
}
