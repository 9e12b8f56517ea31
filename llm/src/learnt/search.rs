//! What to try where nobody says a limit.
//!
//! Up by a sixteenth of the start after a period without a refusal in which three quarters were in
//! use, or a call wanted more than there is at all; up to eight times the start. Down to three
//! quarters after a refusal for a rate, to no less than a sixteenth of the start. A call that was
//! granted while there was more has the same story to tell as the one that has taken it down: its
//! refusal takes it down no further, whichever gateway it is of.

use tidegate_core::{Amount, MAX_AMOUNT, Span, Timestamp};

use super::granted::Granted;

/// The most, in starts.
const MOST: Amount = 8;

/// What is added, and the least: so many of it are a start.
const STEP: Amount = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Search {
    pub(super) start: Amount,
    period: Span,
    /// Since when nothing was refused, and nothing added.
    since: Option<Timestamp>,
    /// Whether three quarters were in use since then.
    was_needed: bool,
}

impl Search {
    pub(super) const fn new(start: Amount, period: Span) -> Self {
        Self {
            start,
            period,
            since: None,
            was_needed: false,
        }
    }

    /// The most that it may come to.
    pub(super) fn most(&self) -> Amount {
        self.start.saturating_mul(MOST).min(MAX_AMOUNT)
    }

    /// The capacity after a call that was refused for a rate, at `now`.
    pub(super) fn refused(&mut self, call: &Granted, capacity: Amount, now: Timestamp) -> Amount {
        self.rest(now);
        if call.capacity > capacity {
            return capacity;
        }
        let least = (self.start / STEP).max(1);
        (capacity - capacity.div_ceil(4)).max(least).min(capacity)
    }

    /// The capacity after a call that was let in, at `now`.
    pub(super) fn passed(&mut self, call: &Granted, capacity: Amount, now: Timestamp) -> Amount {
        self.was_needed |= call.used >= capacity - capacity / 4;
        self.tried(capacity, now)
    }

    /// The capacity after a call that wanted more than there is, at `now`.
    pub(super) fn wanted(&mut self, capacity: Amount, now: Timestamp) -> Amount {
        self.was_needed = true;
        self.tried(capacity, now)
    }

    /// When it may go up next, if nothing is refused until then.
    pub(super) fn next_at(&self, now: Timestamp) -> Timestamp {
        self.since.unwrap_or(now) + self.period
    }

    fn tried(&mut self, capacity: Amount, now: Timestamp) -> Amount {
        let since = *self.since.get_or_insert(now);
        if !self.was_needed || now.since(since) < self.period {
            return capacity;
        }
        self.rest(now);
        let more = capacity.saturating_add((self.start / STEP).max(1));
        more.min(self.most()).max(capacity)
    }

    /// A stretch begins.
    const fn rest(&mut self, now: Timestamp) {
        self.since = Some(now);
        self.was_needed = false;
    }
}
