//! What no lease can do without: two locks, two readings of a clock, one id.
//!
//! The parts by themselves, and all of them in one loop, where a processor does some of
//! one while it waits for another: so the loop takes less than its parts together.

use std::hint::black_box;

use parking_lot::Mutex;
use rand::RngExt;

pub struct Floor {
    state: Mutex<u64>,
    clock: quanta::Clock,
    start: u64,
}

impl Floor {
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        Floor {
            state: Mutex::new(0),
            clock,
            start,
        }
    }

    /// A lock taken and given back, with one change under it.
    #[inline]
    pub fn lock(&self, value: u64) {
        *black_box(&self.state).lock() += value;
    }

    /// The time in microseconds.
    #[inline]
    pub fn now(&self) -> u64 {
        let raw = black_box(&self.clock).raw();
        self.clock.delta_as_nanos(self.start, raw) / 1_000
    }

    /// 128 random bits.
    #[inline]
    pub fn id() -> u128 {
        rand::rng().random()
    }

    /// What a lease and its settlement need, in their order.
    #[inline]
    pub fn lease_and_settle(&self) {
        black_box(Self::id());
        self.lock(self.now());
        self.lock(self.now());
    }
}
