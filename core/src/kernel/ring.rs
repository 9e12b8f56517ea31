//! The ring: a sliding window of n sub-windows.
//!
//! In *every* rolling window of the given length at most the capacity is
//! admitted: a window of n sub-windows touches n + 1 of them, and the ring
//! counts all n + 1 in full. It may therefore refuse up to one sub-window's
//! worth too much, never admit too much. State and time are O(n), whatever
//! the amounts.
//!
//! A clock that steps back by no more than the window sees what is counted
//! ahead of it as counted now. After a longer step the counts move back with
//! it, as far as is certain that they may: a sub-window does not tell where in
//! it the clock stood, so all but the newest stay one sub-window late. The key
//! is then full again within `sub_windows + 1` sub-windows, as after any charge.

use alloc::collections::VecDeque;

use crate::amount::{self, Amount};
use crate::charge::{ChargeReference, DecisionTime};
use crate::error::RuleError;
use crate::range;
use crate::time::{Span, Timestamp};
use crate::verdict::{Standing, Verdict};

/// The most sub-windows a ring may have.
pub const MAX_SUB_WINDOWS: u32 = 10_000;

/// A sliding window of sub-windows. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    capacity: Amount,
    step: Span,
    steps: u32,
}

/// What a ring remembers for one key: counts of sub-windows, oldest first,
/// without those that are zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    pub(crate) counts: VecDeque<(i64, Amount)>,
}

impl State {
    fn newest(&self) -> Option<i64> {
        self.counts.back().map(|&(index, _)| index)
    }
}

impl Ring {
    /// `capacity` units in every rolling `window`, told apart by `sub_windows`.
    /// A window that does not divide evenly is lengthened by under
    /// `sub_windows` microseconds.
    ///
    /// # Errors
    /// `capacity`: 1 to 2^53 - 1. `window`: 1 ms to 400 days. `sub_windows`: 1
    /// to [`MAX_SUB_WINDOWS`], and no more than the window has microseconds.
    pub fn new(capacity: Amount, window: Span, sub_windows: u32) -> Result<Self, RuleError> {
        range::amount("capacity", capacity)?;
        let window = range::period("window", window)?.as_micros();
        let most = u64::from(MAX_SUB_WINDOWS).min(window);
        if !(1..=most).contains(&u64::from(sub_windows)) {
            return Err(RuleError::OutOfRange {
                parameter: "sub_windows",
                got: u64::from(sub_windows),
                least: 1,
                most,
            });
        }
        let step = Span::from_micros(window.div_ceil(u64::from(sub_windows)));
        Ok(Self {
            capacity,
            step,
            steps: sub_windows,
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
    /// As [`Ring::new`].
    pub fn with_capacity(self, capacity: Amount) -> Result<Self, RuleError> {
        range::amount("capacity", capacity)?;
        Ok(Self { capacity, ..self })
    }

    /// How many sub-windows make a window.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// The length of one sub-window.
    #[must_use]
    pub const fn step(&self) -> Span {
        self.step
    }

    /// After a step back by more than the whole window, moves the counts back
    /// with the clock: the newest into the present sub-window, the others one
    /// later than as far before it as they were.
    pub fn observe(&self, state: &mut State, now: Timestamp) {
        let (Some(newest), current) = (state.newest(), self.index(now)) else {
            return;
        };
        if newest.saturating_sub(current) <= i64::from(self.steps) {
            return;
        }
        for (index, _) in &mut state.counts {
            let before = newest.saturating_sub(*index).saturating_sub(1).max(0);
            *index = current.saturating_sub(before);
        }
        merge_newest(&mut state.counts);
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

    /// Counts `amount` in the present sub-window.
    pub fn charge(
        &self,
        state: &mut State,
        amount: Amount,
        time: &DecisionTime,
    ) -> ChargeReference {
        self.prune(state, time.now);
        // A clock slightly behind counts into the newest sub-window: later is safe.
        let index = self.index(time.now).max(state.newest().unwrap_or(i64::MIN));
        let room = amount::MAX_AMOUNT.saturating_sub(self.used(state, time.now));
        let (amount, is_cut) = (amount.min(room), amount >= room);
        match state.counts.back_mut() {
            Some((newest, count)) if *newest == index => *count += amount,
            _ if amount > 0 => state.counts.push_back((index, amount)),
            _ => {}
        }
        match is_cut {
            true => ChargeReference::NONE,
            false => ChargeReference(index),
        }
    }

    /// Uncounts `amount` in the sub-window that was charged.
    pub fn refund(&self, state: &mut State, amount: Amount, reference: ChargeReference) {
        let Ok(position) = state.counts.binary_search_by_key(&reference.0, |&(i, _)| i) else {
            return;
        };
        let count = &mut state.counts[position].1;
        *count = count.saturating_sub(amount);
        if *count == 0 {
            state.counts.remove(position);
        }
    }

    /// Where the ring stands.
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

    /// When the newest count leaves the window.
    #[must_use]
    pub fn forget_at(&self, state: &State) -> Timestamp {
        state.newest().map_or(Timestamp::MIN, |i| self.leaves(i))
    }

    /// Carries `state`, written by `old`, over to this rule: counts that `old` had
    /// let go of stay gone. Where sub-windows differ, a count goes into the one in
    /// which its own ended.
    pub fn adopt(&self, state: &mut State, old: &Self, now: Timestamp) {
        old.prune(state, now);
        if self.step == old.step {
            return;
        }
        let counts = core::mem::take(&mut state.counts);
        for (index, count) in counts {
            let last = (i128::from(index) + 1) * i128::from(old.step.as_micros()) - 1;
            let last = Timestamp::from_micros(i64::try_from(last).unwrap_or(i64::MAX));
            self.charge(state, count, &DecisionTime::at(last.min(now)));
        }
    }

    /// When the newest sub-window that counts anything began.
    pub(crate) fn latest(&self, state: &State) -> Timestamp {
        let start = |index| i128::from(index) * i128::from(self.step.as_micros());
        let start = state.newest().map(start);
        let micros = start.map(|micros| i64::try_from(micros).unwrap_or(i64::MAX));
        micros.map_or(Timestamp::MIN, Timestamp::from_micros)
    }

    fn prune(&self, state: &mut State, now: Timestamp) {
        let oldest = self.oldest(now);
        while state.counts.front().is_some_and(|&(i, _)| i < oldest) {
            state.counts.pop_front();
        }
    }

    fn index(&self, now: Timestamp) -> i64 {
        now.as_micros().div_euclid(self.step.as_micros() as i64)
    }

    /// The oldest sub-window that a rolling window ending now still touches.
    fn oldest(&self, now: Timestamp) -> i64 {
        self.index(now).saturating_sub(i64::from(self.steps))
    }

    fn used(&self, state: &State, now: Timestamp) -> Amount {
        let oldest = self.oldest(now);
        let live = state.counts.iter().filter(|&&(i, _)| i >= oldest);
        live.map(|&(_, count)| count).sum()
    }

    /// When sub-window `index` is out of every window.
    fn leaves(&self, index: i64) -> Timestamp {
        let out = i128::from(index) + i128::from(self.steps) + 1;
        let micros = out * i128::from(self.step.as_micros());
        Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// When at least `amount` of what is counted now has left.
    fn freed(&self, state: &State, amount: Amount, now: Timestamp) -> Timestamp {
        let (oldest, mut freed) = (self.oldest(now), 0);
        for &(index, count) in state.counts.iter().filter(|&&(i, _)| i >= oldest) {
            freed += count;
            if freed >= amount {
                return self.leaves(index);
            }
        }
        Timestamp::MAX
    }
}

/// Makes one count of the newest and the one before it, if both are of one
/// sub-window.
fn merge_newest(counts: &mut VecDeque<(i64, Amount)>) {
    let Some((newest, count)) = counts.pop_back() else {
        return;
    };
    match counts.back_mut() {
        Some((index, sum)) if *index == newest => *sum += count,
        _ => counts.push_back((newest, count)),
    }
}
