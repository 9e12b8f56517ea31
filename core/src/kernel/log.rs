//! The log: a sliding window that is exact to the microsecond.
//!
//! One entry for each instant (never one for each unit), so a charge of a
//! million tokens costs what a charge of one does. The log is bounded: when
//! it is full, neighbours are merged into the later of each pair, which keeps
//! the promise (never more than the capacity in any rolling window) and only
//! ever refuses too much.

use alloc::collections::VecDeque;

use crate::amount::{self, Amount};
use crate::charge::{ChargeReference, DecisionTime};
use crate::error::RuleError;
use crate::range;
use crate::time::{Span, Timestamp};
use crate::verdict::{Standing, Verdict};

/// The most entries a log may be given.
pub const MAX_ENTRIES: u32 = 1 << 20;

/// An exact sliding window. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Log {
    capacity: Amount,
    window: Span,
    max_entries: u32,
}

/// What a log remembers for one key: charges by instant, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    pub(crate) entries: VecDeque<(Timestamp, Amount)>,
    /// The sum of all `entries`, so that no decision adds them up.
    pub(crate) total: Amount,
}

impl State {
    pub(crate) fn newest(&self) -> Option<Timestamp> {
        self.entries.back().map(|&(at, _)| at)
    }
}

impl Log {
    /// `capacity` units in every rolling `window`, in at most `max_entries`
    /// distinct instants before neighbours are merged.
    ///
    /// # Errors
    /// `capacity`: 1 to 2^53 - 1. `window`: 1 ms to 400 days. `max_entries`: 2
    /// to [`MAX_ENTRIES`].
    pub fn new(capacity: Amount, window: Span, max_entries: u32) -> Result<Self, RuleError> {
        range::amount("capacity", capacity)?;
        let window = range::period("window", window)?;
        if !(2..=MAX_ENTRIES).contains(&max_entries) {
            return Err(RuleError::OutOfRange {
                parameter: "max_entries",
                got: u64::from(max_entries),
                least: 2,
                most: u64::from(MAX_ENTRIES),
            });
        }
        Ok(Self {
            capacity,
            window,
            max_entries,
        })
    }

    /// The most that can be granted at once.
    #[must_use]
    pub const fn capacity(&self) -> Amount {
        self.capacity
    }

    /// The same with another capacity.
    ///
    /// # Errors
    /// As [`Log::new`].
    pub fn with_capacity(self, capacity: Amount) -> Result<Self, RuleError> {
        range::amount("capacity", capacity)?;
        Ok(Self { capacity, ..self })
    }

    /// How long what is entered counts.
    #[must_use]
    pub const fn window(&self) -> Span {
        self.window
    }

    /// How many distinct instants are kept apart.
    #[must_use]
    pub const fn max_entries(&self) -> u32 {
        self.max_entries
    }

    /// After a step back by more than the window, moves the entries back with
    /// the clock.
    pub fn observe(&self, state: &mut State, now: Timestamp) {
        let Some(newest) = state.newest() else { return };
        let behind = newest.since(now);
        if behind > self.window {
            for (at, _) in &mut state.entries {
                *at = *at - behind;
            }
        }
    }

    /// Whether `amount` fits now.
    #[must_use]
    pub fn quote(&self, state: &State, amount: Amount, time: &DecisionTime) -> Verdict {
        if amount > self.capacity {
            return Verdict::Never;
        }
        let used = self.used(state, time.now);
        match (used + amount).checked_sub(self.capacity) {
            None | Some(0) => Verdict::Admit,
            Some(excess) => Verdict::NotUntil(self.freed(state, excess, time.now)),
        }
    }

    /// Enters `amount` at this instant.
    pub fn charge(
        &self,
        state: &mut State,
        amount: Amount,
        time: &DecisionTime,
    ) -> ChargeReference {
        self.prune(state, time.now);
        // A clock slightly behind enters at the newest instant: later is safe.
        let at = time.now.max(state.newest().unwrap_or(Timestamp::MIN));
        let room = amount::MAX_AMOUNT.saturating_sub(self.used(state, time.now));
        let (amount, is_cut) = (amount.min(room), amount >= room);
        state.total += amount;
        match state.entries.back_mut() {
            Some((newest, sum)) if *newest == at => *sum += amount,
            _ if amount > 0 => self.push(state, at, amount),
            _ => {}
        }
        match is_cut {
            true => ChargeReference::NONE,
            false => ChargeReference(at.as_micros()),
        }
    }

    /// Takes `amount` out of the entry that was charged, or out of the one it
    /// was merged into. A charge that has left the window, or had left a shorter
    /// one, is nobody's to give back: the next entry after it is another's. (Before
    /// the oldest entry everything is gone. Of what was merged into that one, the
    /// latest alone still comes back: rather too little.)
    pub fn refund(
        &self,
        state: &mut State,
        amount: Amount,
        reference: ChargeReference,
        now: Timestamp,
    ) {
        let at = Timestamp::from_micros(reference.0);
        if self.gone(at, now) {
            return;
        }
        if state.entries.front().is_none_or(|&(oldest, _)| at < oldest) {
            return;
        }
        let position = state.entries.partition_point(|&(entry, _)| entry < at);
        let Some((_, sum)) = state.entries.get_mut(position) else {
            return;
        };
        let back = amount.min(*sum);
        *sum -= back;
        state.total -= back;
        if *sum == 0 {
            state.entries.remove(position);
        }
    }

    /// Where the log stands.
    #[must_use]
    pub fn standing(&self, state: &State, time: &DecisionTime) -> Standing {
        let used = self.used(state, time.now);
        if used == 0 {
            return Standing::full(self.capacity);
        }
        let debt = used.saturating_sub(self.capacity);
        Standing {
            limit: self.capacity,
            remaining: self.capacity.saturating_sub(used),
            debt,
            replenish_at: Some(self.freed(state, debt + 1, time.now)),
            full_at: Some(self.forget_at(state)),
        }
    }

    /// When the newest entry leaves the window.
    #[must_use]
    pub fn forget_at(&self, state: &State) -> Timestamp {
        state.newest().map_or(Timestamp::MIN, |at| at + self.window)
    }

    /// Carries `state`, written by `old`, over: entries that `old` had let go
    /// of stay gone.
    pub fn adopt(&self, state: &mut State, old: &Self, now: Timestamp) {
        old.prune(state, now);
        while state.entries.len() > self.max_entries as usize {
            halve(&mut state.entries);
        }
    }

    fn push(&self, state: &mut State, at: Timestamp, amount: Amount) {
        if state.entries.len() >= self.max_entries as usize {
            halve(&mut state.entries);
        }
        state.entries.push_back((at, amount));
    }

    fn prune(&self, state: &mut State, now: Timestamp) {
        while let Some(&(at, sum)) = state.entries.front() {
            if !self.gone(at, now) {
                break;
            }
            state.total -= sum;
            state.entries.pop_front();
        }
    }

    fn gone(&self, at: Timestamp, now: Timestamp) -> bool {
        at + self.window <= now
    }

    fn used(&self, state: &State, now: Timestamp) -> Amount {
        let gone = state.entries.iter().take_while(|e| self.gone(e.0, now));
        state.total - gone.map(|&(_, amount)| amount).sum::<Amount>()
    }

    /// When at least `amount` of what is entered now has left.
    fn freed(&self, state: &State, amount: Amount, now: Timestamp) -> Timestamp {
        let mut freed = 0;
        for &(at, sum) in self.live(state, now) {
            freed += sum;
            if freed >= amount {
                return at + self.window;
            }
        }
        Timestamp::MAX
    }

    fn live<'s>(
        &self,
        state: &'s State,
        now: Timestamp,
    ) -> impl Iterator<Item = &'s (Timestamp, Amount)> {
        let first = state.entries.partition_point(|&(at, _)| self.gone(at, now));
        state.entries.range(first..)
    }
}

/// Merges each pair of neighbours into the later one.
fn halve(entries: &mut VecDeque<(Timestamp, Amount)>) {
    let half = entries.len() / 2;
    for pair in 0..half {
        let (later, sum) = entries[2 * pair + 1];
        entries[pair] = (later, entries[2 * pair].1 + sum);
    }
    if entries.len() % 2 == 1 {
        entries[half] = entries[entries.len() - 1];
    }
    entries.truncate(entries.len().div_ceil(2));
}
