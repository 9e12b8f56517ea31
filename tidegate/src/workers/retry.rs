//! How often a job that fails is run again, and after how long.

use std::time::Duration;

use crate::random::{SplitMix, mixed};

/// How often a job that returns an error is run again, and after how long.
///
/// Before a back-off begins, every lease that the attempt held is given back,
/// as failed: others may use what it had while it sleeps, and the next attempt
/// asks anew. A job that panics is not run again.
///
/// ```
/// use std::time::Duration;
/// use tidegate::workers::Retry;
///
/// // At most three more attempts: after 100 ms, 200 ms and 400 ms.
/// let (first, longest) = (Duration::from_millis(100), Duration::from_secs(5));
/// let retry = Retry::times(3).backoff(first, 2, longest);
/// # let _ = retry;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retry {
    times: u32,
    first: Duration,
    factor: u32,
    longest: Duration,
    jitter: Option<u64>,
}

impl Retry {
    /// At most `times` more attempts, at once; 0 is never.
    #[must_use]
    pub fn times(times: u32) -> Self {
        Self {
            times,
            ..Self::default()
        }
    }

    /// Waits for `first` before the second attempt and `factor` times as long
    /// before each further one, but never longer than `longest`. A factor of 0
    /// counts as 1: always the same.
    #[must_use]
    pub fn backoff(mut self, first: Duration, factor: u32, longest: Duration) -> Self {
        (self.first, self.factor, self.longest) = (first, factor.max(1), longest);
        self
    }

    /// Shortens every back-off by up to a half, so that jobs that failed
    /// together do not come back together; the same for the same seed, job and
    /// attempt.
    #[must_use]
    pub fn jitter(mut self, seed: u64) -> Self {
        self.jitter = Some(seed);
        self
    }

    /// How long job `index` backs off after its attempt number `attempt` has
    /// failed; nothing if that was the last.
    pub(super) fn delay(&self, index: usize, attempt: u32) -> Option<Duration> {
        if attempt >= self.times {
            return None;
        }
        let grown = self.factor.saturating_pow(attempt);
        let whole = self.first.saturating_mul(grown).min(self.longest);
        Some(self.jittered(whole, index, attempt))
    }

    fn jittered(&self, whole: Duration, index: usize, attempt: u32) -> Duration {
        let Some(seed) = self.jitter else {
            return whole;
        };
        let which = mixed(index as u64) ^ mixed(!u64::from(attempt));
        let micros = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX);
        let less = SplitMix::new(seed ^ which).below(micros / 2 + 1);
        Duration::from_micros(micros - less)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn back_offs_grow_by_the_factor_to_the_longest_and_end() {
        let retry = Retry::times(5).backoff(SECOND, 3, 10 * SECOND);
        let delays: Vec<_> = (0..6).map(|attempt| retry.delay(0, attempt)).collect();
        let seconds = [Some(1), Some(3), Some(9), Some(10), Some(10), None];
        assert_eq!(delays, seconds.map(|s| s.map(Duration::from_secs)));
        let always = Retry::times(u32::MAX).backoff(SECOND, 0, SECOND);
        assert_eq!(always.delay(0, 1_000_000), Some(SECOND));
        let huge = Retry::times(u32::MAX).backoff(Duration::MAX, u32::MAX, Duration::MAX);
        assert_eq!(huge.delay(0, 1_000_000), Some(Duration::MAX));
        assert!(huge.jitter(1).delay(0, 9) > Some(Duration::from_secs(1 << 40)));
    }

    #[test]
    fn jitter_takes_up_to_a_half_and_is_the_same_again() {
        let retry = Retry::times(9).backoff(SECOND, 1, SECOND).jitter(5);
        let delays: Vec<_> = (0..100).filter_map(|job| retry.delay(job, 0)).collect();
        assert!(delays.iter().all(|&d| SECOND / 2 <= d && d <= SECOND));
        let again: Vec<_> = (0..100).filter_map(|job| retry.delay(job, 0)).collect();
        assert_eq!(delays, again);
        assert_ne!(delays[0], delays[1]);
        assert_ne!(retry.delay(0, 0), retry.delay(0, 1));
    }

    #[test]
    fn without_times_nothing_is_run_again() {
        assert_eq!(Retry::default().delay(0, 0), None);
        assert_eq!(Retry::times(0).delay(0, 0), None);
        assert_eq!(Retry::times(1).delay(0, 0), Some(Duration::ZERO));
    }
}
