//! The bucket: token bucket, GCRA and leaky bucket are one state machine.
//!
//! A rate of `amount` units per `period` microseconds is reduced by its
//! greatest common divisor to `a` per `p`. A unit weighs `p`, each microsecond
//! drains `a`, a bucket of `burst` units holds `burst * p`. Everything is an
//! integer, so refilling needs no division and loses nothing.
//!
//! The state is the *level* (what is used and not yet drained) as of an
//! instant. This is the theoretical arrival time of GCRA (ATM Forum TM 4.0,
//! section 4.4.2; ITU-T I.371) seen from the other side: `at + level / a` is
//! the instant at which the bucket is full again.
//!
//! A lease may give back later what it did not use. As much of it comes off the
//! level as would not be there had it never been charged: nothing of what has
//! drained since. What that takes to know is in `bucket/low_water.rs`; it is kept for
//! leases alone, and no longer than it matters.
//!
//! **A smaller burst.** Whoever had used more than a burst that was lowered is
//! empty by it, and not in debt. What is above is *forgiven*, and not forgotten:
//! the level stays as it is, and a larger burst counts all of it again. So two
//! servers of which one knows of a change already, asked in turn, together admit
//! no more than the larger limit alone. (Let the room by a rule be its burst less
//! what counts. No rule's room is ever more than the larger burst less the level:
//! it is so at a change, both drain alike and are charged alike.) It is forgiven
//! for good once the larger limit would have been full again, if the smaller is by
//! then not; and in any case once the level is 0.

mod forgiven;
mod low_water;

use alloc::boxed::Box;

use crate::amount::{self, Amount};
use crate::charge::{ChargeReference, DecisionTime};
use crate::error::RuleError;
use crate::range;
use crate::time::{Span, Timestamp};
use crate::verdict::{Standing, Verdict};

pub(crate) use forgiven::Forgiven;
pub(crate) use low_water::{LowWaterMarks, MOST_MARKS, Mark, Marks};

/// Debt is capped at what drains in 2^47 microseconds (4.5 years), so that a
/// level always fits a packed bucket; whoever owes more is locked out all the same.
pub(crate) const DEBT_SPAN_BITS: u32 = 47;

/// No level is higher, with what is forgiven: above every brim with its debt.
const HIGHEST: u128 = 1 << 101;

/// A rate with a burst. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    drain: u64,
    weight: u64,
    burst: Amount,
}

/// What a bucket remembers for one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    pub(crate) level: u128,
    pub(crate) at: Timestamp,
    /// What a late refund goes by; none without leases, or once the level was 0
    /// since the last of them.
    pub(crate) low_water: LowWaterMarks,
    /// What of the level does not count by a burst that was lowered.
    pub(crate) forgiven: Option<Box<Forgiven>>,
}

impl State {
    /// Whether level and instant say it all: no lease may still give something
    /// back, and nothing of the level is forgiven.
    #[must_use]
    #[inline]
    pub const fn is_packable(&self) -> bool {
        self.low_water.get().is_none() && self.forgiven.is_none()
    }

    /// The instant that it is as of.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether it decides like "never seen", whatever the clock says.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.level == 0 && self.is_packable()
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            level: 0,
            at: Timestamp::MIN,
            low_water: LowWaterMarks::NONE,
            forgiven: None,
        }
    }
}

impl Bucket {
    /// `amount` units per `period`, of which `burst` may be used at once.
    ///
    /// # Errors
    /// `amount` and `burst`: 1 to 2^53 - 1. `period`: 1 ms to 400 days.
    pub fn new(amount: Amount, period: Span, burst: Amount) -> Result<Self, RuleError> {
        range::amount("amount", amount)?;
        range::amount("burst", burst)?;
        let period = range::period("period", period)?.as_micros();
        let divisor = gcd(amount, period);
        Ok(Self {
            drain: amount / divisor,
            weight: period / divisor,
            burst,
        })
    }

    /// The most that can be granted at once.
    #[must_use]
    pub const fn capacity(&self) -> Amount {
        self.burst
    }

    /// The same rate with another burst.
    ///
    /// # Errors
    /// As [`Bucket::new`].
    pub fn with_capacity(self, burst: Amount) -> Result<Self, RuleError> {
        range::amount("burst", burst)?;
        Ok(Self { burst, ..self })
    }

    /// What one unit weighs: the period over the common divisor.
    #[must_use]
    pub const fn weight(&self) -> u64 {
        self.weight
    }

    /// What drains in a microsecond: the amount over the common divisor.
    #[must_use]
    pub const fn drain(&self) -> u64 {
        self.drain
    }

    /// The level at which nothing is left.
    #[must_use]
    pub const fn brim(&self) -> u128 {
        self.burst as u128 * self.weight as u128
    }

    /// How long an empty bucket takes to fill.
    #[must_use]
    pub const fn refill(&self) -> Span {
        let micros = self.brim().div_ceil(self.drain as u128);
        Span::from_micros(if micros > u64::MAX as u128 {
            u64::MAX
        } else {
            micros as u64
        })
    }

    /// After a step back of the clock by more than [`refill`](Self::refill),
    /// keeps the level and goes on from the new instant.
    #[inline]
    pub fn observe(&self, state: &mut State, now: Timestamp) {
        if state.at > now {
            self.observe_step_back(state, now);
        }
    }

    #[cold]
    fn observe_step_back(&self, state: &mut State, now: Timestamp) {
        if state.level > 0 && state.at.since(now) > self.refill() {
            state.at = now;
        }
    }

    /// Makes `state` one as of an earlier instant, which is full again when it is: for one
    /// that looked at a clock that never steps back, and comes late.
    pub fn as_of(&self, state: &mut State, earlier: Timestamp) {
        if earlier < state.at {
            (state.level, state.at) = (self.level(state, earlier), earlier);
        }
    }

    /// Whether `amount` fits now, or exactly when.
    #[inline]
    #[must_use]
    pub fn quote(&self, state: &State, amount: Amount, time: &DecisionTime) -> Verdict {
        if amount > self.burst {
            return Verdict::Never;
        }
        let wanted = self.counted(state, time.now) + self.weigh(amount);
        match wanted.checked_sub(self.brim()) {
            None | Some(0) => Verdict::Admit,
            Some(excess) => Verdict::NotUntil(self.drained(excess, time.now)),
        }
    }

    /// Whether `amount` fits now.
    #[inline]
    #[must_use]
    pub(crate) fn admits(&self, state: &State, amount: Amount, now: Timestamp) -> bool {
        amount <= self.burst && self.counted(state, now) + self.weigh(amount) <= self.brim()
    }

    /// Takes `amount` for good if it fits: [`quote`](Self::quote) and
    /// [`charge`](Self::charge) as one step, which is short for a state that
    /// [is plain](State::is_packable).
    #[inline]
    pub fn take(&self, state: &mut State, amount: Amount, now: Timestamp) -> Verdict {
        if now < state.at || amount > self.burst || !state.is_packable() {
            return self.take_slowly(state, amount, now);
        }
        let level = self.level(state, now) + self.weigh(amount);
        match level.checked_sub(self.brim()) {
            None | Some(0) => {
                (state.level, state.at) = (level, now);
                Verdict::Admit
            }
            Some(excess) => Verdict::NotUntil(self.drained(excess, now)),
        }
    }

    #[cold]
    fn take_slowly(&self, state: &mut State, amount: Amount, now: Timestamp) -> Verdict {
        let time = DecisionTime::at(now);
        self.observe(state, now);
        let verdict = self.quote(state, amount, &time);
        if verdict.admitted() {
            self.charge(state, amount, &time);
        }
        verdict
    }

    /// Takes `amount` for good; what is above the brim is debt.
    #[inline]
    pub fn charge(
        &self,
        state: &mut State,
        amount: Amount,
        time: &DecisionTime,
    ) -> ChargeReference {
        self.settle_level(state, time.now);
        state.low_water.note(state.level, time.now);
        match self.add(state, amount) {
            true => ChargeReference::default(),
            false => ChargeReference::NONE,
        }
    }

    /// Adds `amount` to the level; `false` if the cap on debt cuts it short.
    #[inline]
    fn add(&self, state: &mut State, amount: Amount) -> bool {
        state.level += self.weigh(amount);
        state.level <= self.brim() || self.is_below_cap(state)
    }

    #[cold]
    fn is_below_cap(&self, state: &mut State) -> bool {
        let most = self.most() + forgiven::of(&state.forgiven);
        let is_below = state.level < most;
        state.level = state.level.min(most);
        is_below
    }

    /// Takes `amount` for a lease, which may give it back later: its reference is
    /// its number, larger than any before.
    #[inline]
    pub fn charge_lease(
        &self,
        state: &mut State,
        amount: Amount,
        time: &DecisionTime,
    ) -> ChargeReference {
        self.settle_level(state, time.now);
        let number = state.low_water.number(state.level, time.now);
        match self.add(state, amount) {
            true => ChargeReference(number),
            false => ChargeReference::NONE,
        }
    }

    /// Takes back what of `amount` has not drained since a lease was charged at
    /// `reference`: after it the level is what it would be, had `amount` never been
    /// charged, or a little more where that was many leases ago. (Of a charge that
    /// the cap on debt cut short, nothing.)
    #[inline]
    pub fn refund(
        &self,
        state: &mut State,
        amount: Amount,
        reference: ChargeReference,
        time: &DecisionTime,
    ) {
        self.settle_level(state, time.now);
        let Some(kept) = state.low_water.get_mut() else {
            return;
        };
        let back = kept.give_back(reference.0, self.weigh(amount), state.level);
        state.level -= back;
        // What was forgiven is the first to come back: it makes no room.
        forgiven::take_off(&mut state.forgiven, back);
        if state.level == 0 {
            state.low_water.note(0, time.now);
        }
    }

    /// Where the bucket stands.
    #[must_use]
    pub fn standing(&self, state: &State, time: &DecisionTime) -> Standing {
        self.level_at(state, time.now).standing()
    }

    /// How much of it is used at `now`.
    #[inline]
    #[must_use]
    pub fn level_at(&self, state: &State, now: Timestamp) -> BucketLevel {
        BucketLevel::new(*self, self.counted(state, now), now)
    }

    /// When the bucket is full again, and its state is as good as none. (In the
    /// microseconds in which numbers run ahead of the clock, it is not yet.)
    #[must_use]
    pub fn forget_at(&self, state: &State) -> Timestamp {
        let mut empty_at = self.drained(state.level, state.at);
        if let Some(forgiven) = &state.forgiven {
            let full_at = self.drained(self.counted(state, state.at), state.at);
            empty_at = empty_at.min(full_at.max(forgiven.until));
        }
        let low_water = state.low_water.get();
        low_water.map_or(empty_at, |low_water| empty_at.max(low_water.forget_at()))
    }

    /// Carries `state`, written by `old`, over to this rule: what is in use
    /// stays in use, no more than empty unless there was debt, which stays. What
    /// is above that is forgiven.
    pub fn adopt(&self, state: &mut State, old: &Self, now: Timestamp) {
        old.settle_level(state, now);
        let up = |level: u128| self.convert(level, old, u128::div_ceil);
        let down = |level: u128| self.convert(level, old, u128::div_euclid);
        let (level, counted) = (state.level, old.counted(state, state.at));
        let empty_in = level.div_ceil(u128::from(old.drain));
        state.level = up(level).min(HIGHEST);
        let counts = match self.burst.checked_sub(old.burst) {
            Some(more) => up(counted).saturating_add(self.weigh(more)),
            None => {
                let debt = up(counted.saturating_sub(old.brim()));
                up(counted).min(self.brim().saturating_add(debt))
            }
        };
        self.forgive_above(state, counts.min(self.most()), empty_in);
        if let Some(low_water) = state.low_water.get_mut() {
            // Of what may come back, rather too little.
            low_water.convert(|level| down(level).min(HIGHEST));
        }
    }

    /// The state of who has used so much by a rule of another kind, which is full
    /// again at `full_at`.
    pub(crate) fn take_over(
        &self,
        state: &mut State,
        used: Amount,
        full_at: Timestamp,
        now: Timestamp,
    ) {
        (state.level, state.at) = (self.weigh(used), now);
        let full_in = full_at.since(now).as_micros();
        self.forgive_above(state, self.brim(), full_in.into());
    }

    /// How many units are used and not drained, rounded up; what is forgiven is
    /// among them.
    pub(crate) fn used(&self, state: &State, now: Timestamp) -> Amount {
        amount::clamp(self.level(state, now).div_ceil(u128::from(self.weight)))
    }

    /// Forgives what of the level is above `counts`; the rule by which it was used
    /// is full again in so many microseconds.
    fn forgive_above(&self, state: &mut State, counts: u128, full_in: u128) {
        let level = state.level.saturating_sub(counts);
        let counts = state.level - level;
        let until = match counts / u128::from(self.drain) >= full_in {
            true => state.at.after_micros(full_in),
            false => Timestamp::MAX,
        };
        state.forgiven = (level > 0).then(|| Box::new(Forgiven { level, until }));
    }

    /// What of the level at `now` counts: all that is not forgiven.
    #[inline]
    pub(crate) fn counted(&self, state: &State, now: Timestamp) -> u128 {
        self.level(state, now)
            .saturating_sub(forgiven::of(&state.forgiven))
    }

    /// The level at `now`. A clock slightly behind the state's instant sees
    /// what it would have seen had it never been ahead.
    #[inline]
    pub(crate) fn level(&self, state: &State, now: Timestamp) -> u128 {
        if now >= state.at {
            return state.level.saturating_sub(self.drains(state.at, now));
        }
        if state.level == 0 {
            return 0;
        }
        state.level + self.drains(now, state.at)
    }

    /// What drains from one instant to another that is not before it.
    #[inline]
    fn drains(&self, from: Timestamp, to: Timestamp) -> u128 {
        let elapsed = to.as_micros().wrapping_sub(from.as_micros()) as u64;
        u128::from(elapsed) * u128::from(self.drain)
    }

    /// Drains up to `now`. The state's instant never moves back here.
    #[inline]
    fn settle_level(&self, state: &mut State, now: Timestamp) {
        if now > state.at {
            state.level = state.level.saturating_sub(self.drains(state.at, now));
            state.at = now;
        } else if state.level == 0 {
            state.at = now;
        }
        if forgiven::is_over(&mut state.forgiven, &mut state.level, now) {
            // Of what was forgiven nothing may come back.
            state.low_water.note(0, now);
        }
    }

    /// The highest level that counts: empty, and all the debt there can be.
    fn most(&self) -> u128 {
        self.brim() + (u128::from(self.drain) << DEBT_SPAN_BITS)
    }

    fn weigh(&self, amount: Amount) -> u128 {
        u128::from(amount) * u128::from(self.weight)
    }

    /// The instant at which `level` has drained, counting from `from`.
    fn drained(&self, level: u128, from: Timestamp) -> Timestamp {
        match u64::try_from(level) {
            Ok(level) => from + Span::from_micros(level.div_ceil(self.drain)),
            Err(_) => from.after_micros(level.div_ceil(u128::from(self.drain))),
        }
    }

    /// A level of `old` in this bucket's weights; `divide` rounds what is left.
    fn convert(&self, level: u128, old: &Self, divide: fn(u128, u128) -> u128) -> u128 {
        let (old_weight, weight) = (u128::from(old.weight), u128::from(self.weight));
        let (units, rest) = (level / old_weight, level % old_weight);
        let rest = divide(rest * weight, old_weight);
        units.saturating_mul(weight).saturating_add(rest)
    }
}

/// How much of a bucket is used at an instant. All that its standing says follows from
/// this, and is computed for who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketLevel {
    bucket: Bucket,
    /// In halves, so that an answer needs no room to align it.
    level: [u64; 2],
    at: Timestamp,
}

impl BucketLevel {
    #[inline]
    pub(crate) const fn new(bucket: Bucket, level: u128, at: Timestamp) -> Self {
        let level = [level as u64, (level >> 64) as u64];
        Self { bucket, level, at }
    }

    #[inline]
    const fn level(&self) -> u128 {
        self.level[0] as u128 | (self.level[1] as u128) << 64
    }

    /// Whole units that could be granted then.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> Amount {
        let left = self.bucket.brim().saturating_sub(self.level());
        match u64::try_from(left) {
            Ok(left) => left / self.bucket.weight,
            Err(_) => (left / u128::from(self.bucket.weight)) as Amount,
        }
    }

    /// Where the bucket stood then.
    #[inline]
    #[must_use]
    pub fn standing(&self) -> Standing {
        match (self.level, u64::try_from(self.bucket.brim())) {
            ([0, 0], _) => Standing::full(self.bucket.burst),
            ([level, 0], Ok(brim)) => self.standing_of(level, brim),
            _ => self.wide_standing(),
        }
    }

    /// The same, where 64 bits suffice.
    #[inline]
    fn standing_of(&self, level: u64, brim: u64) -> Standing {
        let Bucket {
            drain,
            weight,
            burst,
        } = self.bucket;
        let remaining = brim.saturating_sub(level) / weight;
        let next_level = brim.saturating_sub((remaining + 1).saturating_mul(weight));
        let drained = |level: u64| self.at + Span::from_micros(level.div_ceil(drain));
        Standing {
            limit: burst,
            remaining,
            debt: match level.checked_sub(brim) {
                None | Some(0) => 0,
                Some(over) => amount::clamp(over.div_ceil(weight).into()),
            },
            replenish_at: Some(drained(level - next_level)),
            full_at: Some(drained(level)),
        }
    }

    #[cold]
    fn wide_standing(&self) -> Standing {
        let (bucket, level, at) = (self.bucket, self.level(), self.at);
        let (weight, remaining) = (u128::from(bucket.weight), self.remaining());
        let next = (u128::from(remaining) + 1) * weight;
        let next_level = bucket.brim().saturating_sub(next);
        Standing {
            limit: bucket.burst,
            remaining,
            debt: match level.checked_sub(bucket.brim()) {
                None | Some(0) => 0,
                Some(over) => amount::clamp(over.div_ceil(weight)),
            },
            replenish_at: Some(bucket.drained(level - next_level, at)),
            full_at: Some(bucket.drained(level, at)),
        }
    }
}

/// Euclid; both at least 1.
const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
