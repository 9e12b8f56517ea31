//! How long a breaker is patient.

use std::time::Duration;

/// When a store is no longer asked, and how it is asked again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// After so many commands in a row without an answer, the store gets no requests for a while:
    /// 5 unless set. At least 1.
    pub failures: u32,
    /// A request that its caller gives up after so long got no answer; sooner, nothing
    /// is known: 250 ms unless said.
    pub patience: Duration,
    /// For how long it is not asked, the first time: 200 ms unless said. Twice as long each time
    /// that the request which tries gets no answer; a random quarter more or less, so
    /// that processes do not try together.
    pub pause: Duration,
    /// For how long at most: 5 s unless said.
    pub longest_pause: Duration,
    /// When it answers again, one request at once is let through, then two, and twice as many each
    /// time that as many were answered, or that a pause has passed with an answer or without a
    /// request: up to this many, then all are: 64 unless said. At least 1.
    pub ramp: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            failures: 5,
            patience: Duration::from_millis(250),
            pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(5),
            ramp: 64,
        }
    }
}
