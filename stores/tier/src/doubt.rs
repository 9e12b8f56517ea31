//! What the store may execute late, for it has not answered: told again for a while. No I/O, no
//! clock.

use tidegate_store::core::{Span, Timestamp};

/// For so long after an answer was lost the store is told again: a command that is later than that
/// may leave slots taken until the lease ends, or, one that renewed it for less than it was since,
/// free too early.
pub(crate) const LASTS: Span = Span::from_secs(60);

/// So soon it is told again at first, and each time half as often, but so often at least: however
/// many are in doubt, that is no load.
const FIRST_PAUSE: Span = Span::SECOND;
pub(crate) const LONGEST_PAUSE: Span = Span::from_secs(16);

/// The store may execute late what it did not answer to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doubt {
    /// Until then; `None`: nothing is in doubt.
    until: Option<Timestamp>,
    /// When it is told again.
    next: Timestamp,
    pause: Span,
    longest_pause: Span,
}

impl Doubt {
    /// The answer to a command was lost. It is told again so often at least.
    pub(crate) fn begin(&mut self, now: Timestamp, longest_pause: Span) {
        let longest_pause = longest_pause.min(LONGEST_PAUSE).max(FIRST_PAUSE);
        if self.until.is_none() {
            (self.next, self.pause) = (now + FIRST_PAUSE, FIRST_PAUSE);
            self.longest_pause = longest_pause;
        }
        self.longest_pause = self.longest_pause.min(longest_pause);
        self.next = self.next.min(now + FIRST_PAUSE);
        self.until = Some(now + LASTS);
    }

    /// Whether something is in doubt.
    pub(crate) const fn lasts(&self) -> bool {
        self.until.is_some()
    }

    /// Whether the store is to be told again now: from time to time, for the last time as the doubt
    /// ends.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.lasts() && now >= self.next
    }

    /// It is told now: again after a longer pause.
    pub(crate) fn put_off(&mut self, now: Timestamp) {
        let twice = Span::from_micros(self.pause.as_micros().saturating_mul(2));
        self.pause = twice.min(self.longest_pause);
        self.next = now + self.pause;
        if let Some(until) = self.until.filter(|until| now < *until) {
            self.next = self.next.min(until);
        }
    }

    /// What was told did not come there: it is told at the next look.
    pub(crate) fn again(&mut self, now: Timestamp) {
        self.next = now;
    }

    /// The store has heard what it was told at `told`: nothing is in doubt any more, if what it did
    /// not answer to is so long ago by then.
    pub(crate) fn settle(&mut self, told: Timestamp) {
        self.until.take_if(|until| *until <= told);
    }
}
