//! The window: so much in each minute, hour or calendar day.
//!
//! Windows are aligned to the epoch, to first use, or to a calendar. The core
//! knows no time zones: a calendar's boundaries travel with the request as
//! [`Bounds`](crate::Bounds) (this window's and the next one's), and whoever decides picks by
//! its own clock. As with any fixed window, twice the capacity may pass around
//! a boundary; a ring or a log does not allow that. After the clock has stepped
//! back by more than a window it may be three times, however often it does so.

use crate::amount::{self, Amount};
use crate::charge::{ChargeReference, DecisionTime};
use crate::error::RuleError;
use crate::range;
use crate::time::{Span, Timestamp};
use crate::verdict::{Standing, Verdict};

/// Where windows begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// At multiples of the period since the Unix epoch.
    Epoch(Span),
    /// At the first charge after the last window ended.
    FirstUse(Span),
    /// Where the request's [`Bounds`](crate::Bounds) say.
    Calendar,
}

/// So much in each window. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    capacity: Amount,
    align: Align,
}

/// What a window remembers for one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) used: Amount,
}

impl Default for State {
    fn default() -> Self {
        Self {
            start: Timestamp::MIN,
            end: Timestamp::MIN,
            used: 0,
        }
    }
}

impl Window {
    /// `capacity` units in each window.
    ///
    /// # Errors
    /// `capacity`: 1 to 2^53 - 1. The period: 1 ms to 400 days.
    pub fn new(capacity: Amount, align: Align) -> Result<Self, RuleError> {
        range::amount("capacity", capacity)?;
        if let Align::Epoch(period) | Align::FirstUse(period) = align {
            range::period("period", period)?;
        }
        Ok(Self { capacity, align })
    }

    /// The most that can be granted at once.
    #[must_use]
    pub const fn capacity(&self) -> Amount {
        self.capacity
    }

    /// The same with another capacity.
    ///
    /// # Errors
    /// As [`Window::new`].
    pub fn with_capacity(self, capacity: Amount) -> Result<Self, RuleError> {
        range::amount("capacity", capacity)?;
        Ok(Self { capacity, ..self })
    }

    /// Where windows begin.
    #[must_use]
    pub const fn align(&self) -> Align {
        self.align
    }

    /// After a step back by more than a window's length, moves the count into
    /// the window that the clock now says, and keeps it open for a whole length
    /// from now: a clock that steps back to just before a boundary, again and
    /// again, would otherwise open a window each time.
    pub fn observe(&self, state: &mut State, time: &DecisionTime) {
        if state.used == 0 || state.start <= time.now {
            return;
        }
        let (start, end) = self.bounds(time);
        let length = end.since(start);
        if state.start.since(time.now) > length {
            (state.start, state.end) = (start, time.now + length);
        }
    }

    /// Whether `amount` fits now.
    #[must_use]
    pub fn quote(&self, state: &State, amount: Amount, time: &DecisionTime) -> Verdict {
        if amount > self.capacity {
            return Verdict::Never;
        }
        match self.current(state, time) {
            Some(open) if open.used + amount > self.capacity => Verdict::NotUntil(open.end),
            _ => Verdict::Admit,
        }
    }

    /// Counts `amount`; what is above the capacity is debt until the window ends.
    pub fn charge(
        &self,
        state: &mut State,
        amount: Amount,
        time: &DecisionTime,
    ) -> ChargeReference {
        if self.current(state, time).is_none() {
            let (start, end) = self.bounds(time);
            *state = State {
                start,
                end,
                used: 0,
            };
        }
        state.used = state.used.saturating_add(amount).min(amount::MAX_AMOUNT);
        match state.used {
            amount::MAX_AMOUNT => ChargeReference::NONE,
            _ => ChargeReference(state.start.as_micros()),
        }
    }

    /// Uncounts `amount` in the window that was charged, if it is still there.
    pub fn refund(&self, state: &mut State, amount: Amount, reference: ChargeReference) {
        if state.start.as_micros() == reference.0 {
            state.used = state.used.saturating_sub(amount);
        }
    }

    /// Where the window stands.
    #[must_use]
    pub fn standing(&self, state: &State, time: &DecisionTime) -> Standing {
        match self.current(state, time) {
            Some(open) if open.used > 0 => Standing {
                limit: self.capacity,
                remaining: self.capacity.saturating_sub(open.used),
                debt: open.used.saturating_sub(self.capacity),
                replenish_at: Some(open.end),
                full_at: Some(open.end),
            },
            _ => Standing::full(self.capacity),
        }
    }

    /// When the window ends. One begun by first use is a state even when all
    /// of it was refunded: it says where the window ends.
    #[must_use]
    pub fn forget_at(&self, state: &State) -> Timestamp {
        if state.used == 0 && !matches!(self.align, Align::FirstUse(_)) {
            // To a clock that steps back behind its beginning, it is open already.
            return state.start;
        }
        state.end
    }

    /// Carries `state`, written by `old`, over to this rule: what is counted stays
    /// counted until the window ends that this rule sees; no later than by `old`,
    /// if this rule's windows are no longer, or if the beginning is not in the one
    /// that this rule sees now. The beginning stays, so that the window ends however
    /// often it is carried to and fro. One that would have ended already, by first
    /// use at its beginning, ends a period from now at the latest: what is counted may
    /// have been used just now.
    pub fn adopt(&self, state: &mut State, old: &Self, time: &DecisionTime) {
        if old.current(state, time).is_none() {
            *state = State::default();
            return;
        }
        // One calendar is like another here: the boundaries tell them apart.
        if self.align == old.align && time.calendar.is_none() {
            return;
        }
        let (start, end) = self.bounds(time);
        if end <= time.now {
            // Boundaries of a change long ago say nothing of this window.
            return;
        }
        let was = old.period().unwrap_or(state.end.since(state.start));
        let is_longer = self.period().unwrap_or(end.since(start)) > was;
        let (holds_start, end) = match self.align {
            Align::FirstUse(period) if state.start + period > time.now => {
                (true, state.start + period)
            }
            _ => (start <= state.start, end),
        };
        let is_later = is_longer && holds_start;
        state.end = if is_later { end } else { end.min(state.end) };
    }

    /// How long a window is, unless a calendar says it.
    const fn period(&self) -> Option<Span> {
        match self.align {
            Align::Epoch(period) | Align::FirstUse(period) => Some(period),
            Align::Calendar => None,
        }
    }

    /// The state's window if it is still open. One that has not begun yet was
    /// opened by a clock slightly ahead, and is held.
    fn current<'s>(&self, state: &'s State, time: &DecisionTime) -> Option<&'s State> {
        (time.now < state.end).then_some(state)
    }

    /// The window that holds `now`: its beginning and its end.
    fn bounds(&self, time: &DecisionTime) -> (Timestamp, Timestamp) {
        match (self.align, time.calendar) {
            (Align::Epoch(period), _) => epoch_window(time.now, period),
            (Align::Calendar, Some(bounds)) if time.now < bounds.end => (bounds.start, bounds.end),
            (Align::Calendar, Some(bounds)) => (bounds.end, bounds.next_end),
            // No boundaries were given: a day of UTC is the calendar's least surprise.
            (Align::Calendar, None) => epoch_window(time.now, Span::from_secs(86_400)),
            (Align::FirstUse(period), _) => (time.now, time.now + period),
        }
    }
}

fn epoch_window(now: Timestamp, period: Span) -> (Timestamp, Timestamp) {
    let length = period.as_micros() as i64;
    let into = Span::from_micros(now.as_micros().rem_euclid(length) as u64);
    (now - into, now - into + period)
}
