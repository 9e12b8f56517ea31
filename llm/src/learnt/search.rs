//! What to try where nobody says a limit.
//!
//! Up by a sixteenth of the start after a period without a refusal in which three quarters were in
//! use, and up to eight times the start. Down to three quarters after a refusal for a rate, to no
//! less than a sixteenth of the start; the calls that were granted before that have the same
//! story to tell, and their refusals take it down no further.

use tidegate_core::{Amount, Span, Timestamp};

use super::granted::Granted;

/// The most, in starts.
const MOST: Amount = 8;

/// What is added, and the least: so many of it are a start.
const STEP: Amount = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Search {
    start: Amount,
    period: Span,
    /// Since when nothing was refused, and nothing added.
    since: Option<Timestamp>,
    /// Whether three quarters were in use since then.
    was_needed: bool,
    /// When it went down last.
    cut_at: Option<Timestamp>,
}

impl Search {
    pub(super) const fn new(start: Amount, period: Span) -> Self {
        Self {
            start,
            period,
            since: None,
            was_needed: false,
            cut_at: None,
        }
    }

    /// The capacity after a call that was refused for a rate, at `now`.
    pub(super) fn refused(&mut self, call: &Granted, capacity: Amount, now: Timestamp) -> Amount {
        self.rest(now);
        if self.cut_at.is_some_and(|cut_at| call.order.at <= cut_at) {
            return capacity;
        }
        self.cut_at = Some(now);
        let least = (self.start / STEP).max(1);
        (capacity - capacity.div_ceil(4)).max(least).min(capacity)
    }

    /// The capacity after a call that was let in, at `now`.
    pub(super) fn passed(&mut self, call: &Granted, capacity: Amount, now: Timestamp) -> Amount {
        let since = *self.since.get_or_insert(now);
        self.was_needed |= call.used >= capacity - capacity / 4;
        if !self.was_needed || now.since(since) < self.period {
            return capacity;
        }
        self.rest(now);
        let most = self.start.saturating_mul(MOST);
        capacity
            .saturating_add((self.start / STEP).max(1))
            .min(most)
            .max(capacity)
    }

    /// A stretch begins.
    const fn rest(&mut self, now: Timestamp) {
        self.since = Some(now);
        self.was_needed = false;
    }
}
