//! How often a request is made again, and after what pauses.

use std::time::Duration;

use rand::RngExt;
use tidegate_store::StoreError;
use tokio::time::Instant;

use crate::error::Trouble;

/// So often a command is tried that was lost to others, or throttled.
const MOST_LOST: u32 = 24;

/// So often one whose answer did not come.
const MOST_BROKEN: u32 = 4;

/// The first pause is at most this long; each is at most twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The tries of one command, or of one request.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// From then on what nothing was done of is told, and not tried again: whoever asked learns
    /// why before the deadline tells him that nobody knows.
    until: Option<Instant>,
    lost: u32,
    broken: u32,
    is_corrected: bool,
}

impl Backoff {
    /// Of a command that may take so long.
    pub(crate) fn within(deadline: Duration) -> Self {
        Self {
            until: Some(Instant::now() + deadline / 2),
            ..Self::default()
        }
    }

    /// Waits before the next try, or says why there is none. Pauses are drawn at random, so
    /// that those who met once do not meet again.
    pub(crate) async fn after(&mut self, trouble: Trouble) -> Result<(), StoreError> {
        let pause = self.pause(trouble, Instant::now())?;
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// The pause before the next try, if there is one at `now`.
    fn pause(&mut self, trouble: Trouble, now: Instant) -> Result<Duration, StoreError> {
        let tries = match &trouble {
            Trouble::Lost(_) | Trouble::Throttled(..) if self.lost < MOST_LOST => &mut self.lost,
            Trouble::Broken(_) if self.broken < MOST_BROKEN => &mut self.broken,
            // The answer has corrected the clock.
            Trouble::Skewed(_) if !self.is_corrected => {
                self.is_corrected = true;
                return Ok(Duration::ZERO);
            }
            _ => return Err(trouble.told()),
        };
        let most = FIRST_PAUSE * 2_u32.saturating_pow(*tries);
        *tries += 1;
        let most = most.min(LONGEST_PAUSE).as_micros() as u64;
        let pause = Duration::from_micros(rand::rng().random_range(0..=most));
        let is_undone = matches!(trouble, Trouble::Lost(_) | Trouble::Throttled(..));
        match self.until {
            Some(until) if is_undone && now + pause > until => Err(trouble.told()),
            _ => Ok(pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Throttle;

    /// The pauses until no more is tried, and what is told then.
    fn pauses(mut backoff: Backoff, trouble: impl Fn() -> Trouble) -> (Vec<Duration>, StoreError) {
        let (mut pauses, mut now) = (Vec::new(), Instant::now());
        loop {
            match backoff.pause(trouble(), now) {
                Ok(pause) => {
                    now += pause;
                    pauses.push(pause);
                }
                Err(told) => return (pauses, told),
            }
        }
    }

    fn throttled() -> Trouble {
        Trouble::Throttled(Throttle::KeyRange, "too much".to_owned())
    }

    #[test]
    fn pauses_are_drawn_at_random_and_bounded() {
        let (one, told) = pauses(Backoff::default(), throttled);
        assert!(matches!(told, StoreError::Busy(_)), "{told:?}");
        assert_eq!(one.len(), MOST_LOST as usize);
        assert!(one.iter().all(|pause| *pause <= LONGEST_PAUSE), "{one:?}");
        assert!(
            one[0] <= FIRST_PAUSE && one[1] <= 2 * FIRST_PAUSE,
            "{one:?}"
        );
        let (other, _) = pauses(Backoff::default(), throttled);
        assert_ne!(one, other, "nobody pauses as another does");
        let broken = || Trouble::Broken("no answer".to_owned());
        let (few, told) = pauses(Backoff::within(Duration::ZERO), broken);
        assert_eq!(few.len(), MOST_BROKEN as usize);
        assert!(matches!(told, StoreError::Unavailable(_)), "{told:?}");
    }

    /// Half of the deadline is left for what is under way then.
    #[test]
    fn what_nothing_was_done_of_is_told_before_the_deadline() {
        let deadline = Duration::from_secs(1);
        for trouble in [throttled, || Trouble::Lost("others".to_owned())] {
            let (pauses, told) = pauses(Backoff::within(deadline), trouble);
            let all: Duration = pauses.iter().sum();
            assert!(all <= deadline / 2, "{pauses:?}");
            assert!(matches!(told, StoreError::Busy(_)), "{told:?}");
        }
    }
}
