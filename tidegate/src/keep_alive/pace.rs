//! When a lease is renewed.

use std::time::Duration;

/// The longest pause between two attempts while nobody answers.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// When a lease is renewed: each time a third of its length has passed. While
/// nobody answers it is tried again after a thirtieth of it, and then after twice
/// as long each time, up to 5 seconds. It reads no clock: it is told how much of
/// the lease is left, and answers how long to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    ttl: Duration,
    pause: Duration,
    is_answered: bool,
}

impl Pace {
    /// That of a lease of this length.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            pause: first_pause(ttl),
            is_answered: true,
        }
    }

    /// It was granted or renewed, and this much of it is left.
    pub fn answered(&mut self, left: Duration) -> Duration {
        (self.pause, self.is_answered) = (first_pause(self.ttl), true);
        left.saturating_sub(self.ttl - self.ttl / 3)
    }

    /// Nobody answered, and this much of it is left.
    pub fn unanswered(&mut self, left: Duration) -> Duration {
        let pause = self.pause.min(left);
        (self.pause, self.is_answered) = ((self.pause * 2).min(LONGEST_PAUSE), false);
        pause
    }

    /// Whether the last attempt was answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.is_answered
    }
}

fn first_pause(ttl: Duration) -> Duration {
    (ttl / 30).min(LONGEST_PAUSE)
}
