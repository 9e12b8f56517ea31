//! The slots: things held at once (concurrency, a semaphore, a mutex).
//!
//! A holder has a weight and an expiry; at the expiry the slots come back by
//! themselves. Every grant gets a fence: a number larger than that of every
//! earlier grant of this key, for a resource to refuse a late writer (Kleppmann,
//! "How to do distributed locking", 2016). Fences start from the clock, so they
//! keep growing after the state was forgotten or lost.

use alloc::collections::VecDeque;

use crate::amount::{self, Amount};
use crate::charge::{ChargeReference, DecisionTime};
use crate::error::RuleError;
use crate::range;
use crate::time::{Span, Timestamp};
use crate::verdict::{Standing, Verdict};

/// A number of slots, each held until released or expired. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    capacity: Amount,
    ttl: Span,
}

/// One holder of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// When its slots come back by themselves.
    pub expires_at: Timestamp,
    /// The lease's id.
    pub id: u128,
    /// How many slots it holds.
    pub weight: Amount,
}

/// What the slots remember for one key: the holders by expiry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    pub(crate) holders: VecDeque<Holder>,
    /// The weights of all `holders`, so that no decision adds them up.
    pub(crate) total: Amount,
    pub(crate) fence: u64,
    pub(crate) at: Timestamp,
}

impl Default for State {
    fn default() -> Self {
        Self {
            holders: VecDeque::new(),
            total: 0,
            fence: 0,
            at: Timestamp::MIN,
        }
    }
}

impl State {
    /// The fence of the newest grant; 0 before the first.
    #[must_use]
    pub const fn fence(&self) -> u64 {
        self.fence
    }

    /// From here on every grant's fence is larger than `floor`: for who cannot
    /// know the newest fence, but knows a number that it does not exceed.
    pub fn raise_fence(&mut self, floor: u64) {
        self.fence = self.fence.max(floor);
    }
}

impl Slots {
    /// `capacity` slots, held for `ttl` unless renewed or released.
    ///
    /// # Errors
    /// `capacity`: 1 to 2^53 - 1. `ttl`: 1 ms to 400 days.
    pub fn new(capacity: Amount, ttl: Span) -> Result<Self, RuleError> {
        range::amount("capacity", capacity)?;
        let ttl = range::period("ttl", ttl)?;
        Ok(Self { capacity, ttl })
    }

    /// The most that can be held at once.
    #[must_use]
    pub const fn capacity(&self) -> Amount {
        self.capacity
    }

    /// How long a holder holds unless it says otherwise.
    #[must_use]
    pub const fn ttl(&self) -> Span {
        self.ttl
    }

    /// The same slots with another capacity.
    ///
    /// # Errors
    /// As [`Slots::new`].
    pub fn with_capacity(self, capacity: Amount) -> Result<Self, RuleError> {
        Self::new(capacity, self.ttl)
    }

    /// After a step back by more than the ttl, moves the expiries back with
    /// the clock.
    #[inline]
    pub fn observe(&self, state: &mut State, now: Timestamp) {
        if state.at > now {
            self.observe_step_back(state, now);
        }
    }

    #[cold]
    fn observe_step_back(&self, state: &mut State, now: Timestamp) {
        let behind = state.at.since(now);
        if behind > self.ttl {
            for holder in &mut state.holders {
                holder.expires_at = holder.expires_at - behind;
            }
            state.at = now;
        }
    }

    /// Whether `amount` slots are free now. The instant of a refusal is when
    /// enough will have expired; a release may come earlier.
    #[inline]
    #[must_use]
    pub fn quote(&self, state: &State, amount: Amount, time: &DecisionTime) -> Verdict {
        if amount > self.capacity {
            return Verdict::Never;
        }
        let held = held(state, time.now);
        match (held + amount).checked_sub(self.capacity) {
            None | Some(0) => Verdict::Admit,
            Some(excess) => Verdict::NotUntil(freed(state, excess, time.now)),
        }
    }

    /// Whether `amount` slots are free now.
    #[inline]
    #[must_use]
    pub(crate) fn admits(&self, state: &State, amount: Amount, now: Timestamp) -> bool {
        amount <= self.capacity && held(state, now) + amount <= self.capacity
    }

    /// Gives `weight` slots to `id` until `expires_at`; answers the fence. On a
    /// clock slightly behind they come back as much later: later is safe.
    #[inline]
    pub fn grant(
        &self,
        state: &mut State,
        id: u128,
        weight: Amount,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> u64 {
        prune(state, now);
        let expires_at = expires_at + catch_up(state, now);
        // What is held in all stays an amount, or its bytes could not be read.
        let weight = weight.min(amount::MAX_AMOUNT.saturating_sub(state.total));
        insert(
            state,
            Holder {
                expires_at,
                id,
                weight,
            },
        );
        let clock = u64::try_from(now.as_micros()).unwrap_or(0);
        state.fence = state.fence.saturating_add(1).max(clock);
        state.fence
    }

    /// Takes the slots of `id` back; `false` if it holds none (any more).
    /// `expires_at`, as granted or renewed, makes the search short.
    #[inline]
    pub fn release(
        &self,
        state: &mut State,
        id: u128,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> bool {
        prune(state, now);
        remove(state, id, expires_at).is_some()
    }

    /// Moves the expiry of `id` from `old` to `expires_at`; `false` if it
    /// holds none (any more).
    pub fn renew(
        &self,
        state: &mut State,
        id: u128,
        old: Timestamp,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> bool {
        prune(state, now);
        let expires_at = expires_at + catch_up(state, now);
        let Some(holder) = remove(state, id, old) else {
            return false;
        };
        insert(
            state,
            Holder {
                expires_at,
                ..holder
            },
        );
        true
    }

    /// Changes how many slots `id` holds, be they free or not, and neither its fence nor
    /// its expiry; `false` if it holds none (any more).
    pub fn resize(
        &self,
        state: &mut State,
        id: u128,
        expires_at: Timestamp,
        weight: Amount,
        now: Timestamp,
    ) -> bool {
        prune(state, now);
        let Some(holder) = position(state, id, expires_at) else {
            return false;
        };
        let Some(holder) = state.holders.get_mut(holder) else {
            return false;
        };
        let others = state.total - holder.weight;
        holder.weight = weight.min(amount::MAX_AMOUNT.saturating_sub(others));
        state.total = others + holder.weight;
        true
    }

    /// Where the slots stand.
    #[must_use]
    pub fn standing(&self, state: &State, time: &DecisionTime) -> Standing {
        let held = held(state, time.now);
        if held == 0 {
            return Standing::full(self.capacity);
        }
        let over = held.saturating_sub(self.capacity);
        Standing {
            limit: self.capacity,
            remaining: self.capacity.saturating_sub(held),
            debt: over,
            replenish_at: Some(freed(state, over + 1, time.now)),
            full_at: state.holders.back().map(|holder| holder.expires_at),
        }
    }

    /// When the last holder has expired and the clock alone yields a larger
    /// fence than any given.
    #[must_use]
    pub fn forget_at(&self, state: &State) -> Timestamp {
        if state.fence == 0 {
            return Timestamp::MIN;
        }
        let beyond = i64::try_from(state.fence).unwrap_or(i64::MAX);
        let fence_passed = Timestamp::from_micros(beyond.saturating_add(1));
        let last = state.holders.back();
        last.map_or(fence_passed, |h| h.expires_at.max(fence_passed))
    }

    /// The holders that are live at `now`, by expiry.
    pub fn holders(state: &State, now: Timestamp) -> impl Iterator<Item = &Holder> {
        live(state, now)
    }

    /// The slots' unit of account needs no reference: a holder is found by its id.
    pub(crate) const REFERENCE: ChargeReference = ChargeReference(0);
}

/// Notes the latest instant, from which a step back is told; answers how far
/// `now` is behind it.
#[inline]
fn catch_up(state: &mut State, now: Timestamp) -> Span {
    let behind = state.at.since(now);
    state.at = state.at.max(now);
    behind
}

/// The latest expiry goes to the back, where almost every insert lands.
#[inline]
fn insert(state: &mut State, holder: Holder) {
    state.total = state.total.saturating_add(holder.weight);
    let after = |h: &Holder| h.expires_at <= holder.expires_at;
    if state.holders.back().is_none_or(after) {
        state.holders.push_back(holder);
    } else {
        let position = state.holders.partition_point(after);
        state.holders.insert(position, holder);
    }
}

#[inline]
fn remove(state: &mut State, id: u128, expires_at: Timestamp) -> Option<Holder> {
    let holder = match position(state, id, expires_at)? {
        0 => state.holders.pop_front(),
        at => state.holders.remove(at),
    }?;
    state.total -= holder.weight;
    Some(holder)
}

/// Where `id` stands: near its expiry, or anywhere if a step back of the
/// clock has moved it.
#[inline]
fn position(state: &State, id: u128, expires_at: Timestamp) -> Option<usize> {
    if state.holders.front().is_some_and(|h| h.id == id) {
        return Some(0);
    }
    let first = state.holders.partition_point(|h| h.expires_at < expires_at);
    let mut near = state.holders.range(first..);
    let found = near.position(|h| h.id == id).map(|offset| first + offset);
    found.or_else(|| state.holders.iter().position(|h| h.id == id))
}

#[inline]
fn prune(state: &mut State, now: Timestamp) {
    while let Some(holder) = state.holders.front().filter(|h| h.expires_at <= now) {
        state.total -= holder.weight;
        state.holders.pop_front();
    }
}

#[inline]
fn live(state: &State, now: Timestamp) -> impl Iterator<Item = &Holder> {
    let expired = state.holders.partition_point(|h| h.expires_at <= now);
    state.holders.range(expired..)
}

#[inline]
fn held(state: &State, now: Timestamp) -> Amount {
    let expired = state.holders.iter().take_while(|h| h.expires_at <= now);
    state.total - expired.map(|holder| holder.weight).sum::<Amount>()
}

/// When at least `amount` of what is held now will have expired.
fn freed(state: &State, amount: Amount, now: Timestamp) -> Timestamp {
    let mut freed = 0;
    for holder in live(state, now) {
        freed += holder.weight;
        if freed >= amount {
            return holder.expires_at;
        }
    }
    Timestamp::MAX
}
