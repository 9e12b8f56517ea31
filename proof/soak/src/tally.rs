//! What was answered, how late, and what should not have been.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// So many of what went wrong are told in words; all are counted.
const TOLD: usize = 20;

/// An answer later than this is late, beyond what its caller was ready to wait.
pub const LATE: Duration = Duration::from_secs(2);

/// Counts of one policy.
#[derive(Debug)]
pub struct Tally {
    /// Leases that were asked for.
    pub asked: AtomicU64,
    /// Leases that were granted.
    pub granted: AtomicU64,
    /// Leases that were refused.
    pub refused: AtomicU64,
    /// Leases that were ended: settled, released, cancelled, dropped.
    pub ended: AtomicU64,
    /// Answers that took longer than they may.
    pub late: AtomicU64,
    /// How long an answer to an ask took, in microseconds.
    took: Mutex<Histogram<u64>>,
}

impl Default for Tally {
    fn default() -> Self {
        let longest = Duration::from_secs(3_600).as_micros() as u64;
        let took = Histogram::new_with_bounds(1, longest, 2).expect("these bounds are sound");
        Self {
            asked: AtomicU64::default(),
            granted: AtomicU64::default(),
            refused: AtomicU64::default(),
            ended: AtomicU64::default(),
            late: AtomicU64::default(),
            took: Mutex::new(took),
        }
    }
}

impl Tally {
    /// An answer took so long, of which its caller was ready to wait some.
    pub fn took(&self, took: Duration, patience: Duration) {
        self.took.lock().saturating_record(took.as_micros() as u64);
        if took > patience + LATE {
            add(&self.late);
        }
    }

    /// How long they took: half of them, 99 of a hundred, the longest.
    pub fn spread(&self) -> [Duration; 3] {
        let took = self.took.lock();
        let at = |quantile| Duration::from_micros(took.value_at_quantile(quantile));
        [at(0.5), at(0.99), at(1.0)]
    }
}

/// One more.
pub fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// How many so far.
pub fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// What should not have been answered.
#[derive(Debug, Default)]
pub struct Faults {
    count: AtomicU64,
    told: Mutex<Vec<String>>,
}

impl Faults {
    /// One more.
    pub fn add(&self, fault: impl FnOnce() -> String) {
        add(&self.count);
        let mut told = self.told.lock();
        if told.len() < TOLD {
            told.push(fault());
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        read(&self.count)
    }

    /// The first of them.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().clone()
    }
}
