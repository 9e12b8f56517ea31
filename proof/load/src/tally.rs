//! What was answered, and how soon.

use hdrhistogram::Histogram;

use crate::watch::Nanos;
use crate::wire::Answer;

/// The longest latency that is told apart, an hour.
const LONGEST: Nanos = 3_600_000_000_000;

/// Counts, and latencies in nanoseconds to three digits.
pub struct Tally {
    pub sent: u64,
    pub answered: u64,
    pub admitted: u64,
    pub refused: u64,
    /// Leases that were ended.
    pub settled: u64,
    pub errors: u64,
    /// The first error's words.
    pub first_error: Option<String>,
    /// Asks whose answers never came.
    pub unanswered: u64,
    pub latency: Histogram<u64>,
    /// When the last answer came.
    pub last: Nanos,
}

impl Tally {
    pub fn new() -> Self {
        let latency = Histogram::new_with_bounds(1, LONGEST, 3);
        Self {
            sent: 0,
            answered: 0,
            admitted: 0,
            refused: 0,
            settled: 0,
            errors: 0,
            first_error: None,
            unanswered: 0,
            latency: latency.expect("three digits of an hour are within its bounds"),
            last: 0,
        }
    }

    /// An ask was answered; it was to be sent at `due`.
    pub fn answered(&mut self, answer: &Answer, due: Nanos, now: Nanos) {
        self.answered += 1;
        self.last = self.last.max(now);
        self.latency
            .saturating_record(now.saturating_sub(due).max(1));
        match answer {
            Answer::Admitted(_) => self.admitted += 1,
            Answer::Refused => self.refused += 1,
            Answer::Done => {}
            Answer::Failed(reason) => self.failed(reason),
        }
    }

    /// Something went wrong.
    pub fn failed(&mut self, reason: &str) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| reason.to_owned());
    }
}
