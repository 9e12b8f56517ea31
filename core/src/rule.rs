//! One rule of any kind, its state, and the only dispatch over the kernels.

use alloc::boxed::Box;

use crate::amount::Amount;
use crate::charge::{ChargeReference, DecisionTime, LeaseTerm, Receipt};
use crate::error::RuleError;
use crate::kernel::{Bucket, Log, Ring, Slots, Window, bucket, log, ring, slots, window};
use crate::time::Timestamp;
use crate::verdict::{Forecast, Standing, Verdict};

/// A limit's arithmetic, without its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Token bucket, GCRA, leaky bucket.
    Bucket(Bucket),
    /// Fixed window, budget, calendar quota.
    Window(Window),
    /// Sliding window.
    Ring(Ring),
    /// Sliding log.
    Log(Log),
    /// Concurrency.
    Slots(Slots),
}

/// What a limit remembers for one key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// Never seen.
    #[default]
    Fresh,
    /// Of a [`Rule::Bucket`].
    Bucket(bucket::State),
    /// Of a [`Rule::Window`].
    Window(window::State),
    /// Of a [`Rule::Ring`].
    Ring(Box<ring::State>),
    /// Of a [`Rule::Log`].
    Log(Box<log::State>),
    /// Of a [`Rule::Slots`].
    Slots(Box<slots::State>),
}

impl State {
    /// Whether this is the state of a key never seen.
    #[must_use]
    pub const fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh)
    }

    /// Forgets what was used. Slots stay with their holders, who would not be
    /// alone otherwise, and so does the fence, which must go on growing.
    pub fn reset(&mut self) {
        if !matches!(self, Self::Slots(_)) {
            *self = Self::Fresh;
        }
    }
}

/// The kernel's own state in `$any_state`, put there if it is not.
macro_rules! own {
    ($any_state:expr, $kind:ident) => {{
        if !matches!($any_state, State::$kind(_)) {
            *$any_state = State::$kind(Default::default());
        }
        match $any_state {
            State::$kind(state) => state,
            _ => unreachable!("the line above put it there"),
        }
    }};
}

impl Rule {
    /// The most that could ever be granted at once.
    #[must_use]
    pub const fn capacity(&self) -> Amount {
        match self {
            Self::Bucket(kernel) => kernel.capacity(),
            Self::Window(kernel) => kernel.capacity(),
            Self::Ring(kernel) => kernel.capacity(),
            Self::Log(kernel) => kernel.capacity(),
            Self::Slots(kernel) => kernel.capacity(),
        }
    }

    /// The same rule with another capacity. A state says what is in use, whatever the
    /// capacity: to decide by another one forgets nothing, and carries nothing over.
    /// More than the capacity in use is debt. (A bucket's capacity is its burst; its
    /// rate stays.)
    ///
    /// # Errors
    /// A capacity out of 1 to 2^53 - 1.
    pub fn with_capacity(self, capacity: Amount) -> Result<Self, RuleError> {
        Ok(match self {
            Self::Bucket(kernel) => Self::Bucket(kernel.with_capacity(capacity)?),
            Self::Window(kernel) => Self::Window(kernel.with_capacity(capacity)?),
            Self::Ring(kernel) => Self::Ring(kernel.with_capacity(capacity)?),
            Self::Log(kernel) => Self::Log(kernel.with_capacity(capacity)?),
            Self::Slots(kernel) => Self::Slots(kernel.with_capacity(capacity)?),
        })
    }

    /// Whether what it grants is given back (and so needs a lease).
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Slots(_))
    }

    /// Whether `state` is of this rule's kind, or fresh.
    #[must_use]
    pub const fn fits(&self, state: &State) -> bool {
        matches!(
            (self, state),
            (_, State::Fresh)
                | (Self::Bucket(_), State::Bucket(_))
                | (Self::Window(_), State::Window(_))
                | (Self::Ring(_), State::Ring(_))
                | (Self::Log(_), State::Log(_))
                | (Self::Slots(_), State::Slots(_))
        )
    }

    /// Takes note of a clock that stepped back by more than the limit's own
    /// refill; changes nothing otherwise. Goes before every other verb.
    #[inline(always)]
    pub fn observe(&self, state: &mut State, time: &DecisionTime) {
        match (self, &mut *state) {
            (Self::Bucket(kernel), State::Bucket(state)) => kernel.observe(state, time.now),
            (Self::Slots(kernel), State::Slots(state)) => kernel.observe(state, time.now),
            _ => self.observe_else(state, time),
        }
    }

    #[inline(never)]
    fn observe_else(&self, state: &mut State, time: &DecisionTime) {
        match (self, state) {
            (Self::Window(kernel), State::Window(state)) => kernel.observe(state, time),
            (Self::Ring(kernel), State::Ring(state)) => kernel.observe(state, time.now),
            (Self::Log(kernel), State::Log(state)) => kernel.observe(state, time.now),
            _ => {}
        }
    }

    /// Whether `amount` fits now, or exactly when.
    #[inline]
    #[must_use]
    pub fn quote(&self, state: &State, amount: Amount, time: &DecisionTime) -> Verdict {
        match (self, state) {
            (Self::Bucket(kernel), State::Bucket(state)) => kernel.quote(state, amount, time),
            (Self::Window(kernel), State::Window(state)) => kernel.quote(state, amount, time),
            (Self::Ring(kernel), State::Ring(state)) => kernel.quote(state, amount, time),
            (Self::Log(kernel), State::Log(state)) => kernel.quote(state, amount, time),
            (Self::Slots(kernel), State::Slots(state)) => kernel.quote(state, amount, time),
            _ if amount <= self.capacity() => Verdict::Admit,
            _ => Verdict::Never,
        }
    }

    /// Whether `amount` fits now: what [`quote`](Self::quote) says after
    /// [`observe`](Self::observe), without when.
    #[inline(always)]
    #[must_use]
    pub fn admits(&self, state: &mut State, amount: Amount, time: &DecisionTime) -> bool {
        match (self, &mut *state) {
            (Self::Bucket(kernel), State::Bucket(state)) => {
                kernel.observe(state, time.now);
                kernel.admits(state, amount, time.now)
            }
            (Self::Slots(kernel), State::Slots(state)) => {
                kernel.observe(state, time.now);
                kernel.admits(state, amount, time.now)
            }
            _ => self.admits_else(state, amount, time),
        }
    }

    #[inline(never)]
    fn admits_else(&self, state: &mut State, amount: Amount, time: &DecisionTime) -> bool {
        self.observe(state, time);
        self.quote(state, amount, time).admitted()
    }

    /// Takes `amount`, whatever the quote said. Slots go to `term`; without
    /// one nobody could give them back, so none are taken. A bucket gives back
    /// only what was charged with one.
    #[inline]
    pub fn charge(
        &self,
        state: &mut State,
        amount: Amount,
        time: &DecisionTime,
        term: Option<LeaseTerm>,
    ) -> Receipt {
        match (self, &mut *state) {
            (Self::Bucket(kernel), State::Bucket(state)) => Receipt::of(match term {
                Some(_) => kernel.charge_lease(state, amount, time),
                None => kernel.charge(state, amount, time),
            }),
            (Self::Slots(kernel), State::Slots(state)) => {
                let grant =
                    |t: LeaseTerm| kernel.grant(state, t.id, amount, t.expires_at, time.now);
                Receipt {
                    reference: Slots::REFERENCE,
                    fence: term.map_or(0, grant),
                }
            }
            _ => self.charge_else(state, amount, time, term),
        }
    }

    /// Charges a rule of another kind, or a state that is not of the rule's yet.
    #[inline(never)]
    fn charge_else(
        &self,
        state: &mut State,
        amount: Amount,
        time: &DecisionTime,
        term: Option<LeaseTerm>,
    ) -> Receipt {
        match self {
            Self::Window(kernel) => Receipt::of(kernel.charge(own!(state, Window), amount, time)),
            Self::Ring(kernel) => Receipt::of(kernel.charge(own!(state, Ring), amount, time)),
            Self::Log(kernel) => Receipt::of(kernel.charge(own!(state, Log), amount, time)),
            Self::Bucket(_) => {
                own!(state, Bucket);
                self.charge(state, amount, time, term)
            }
            Self::Slots(_) => {
                own!(state, Slots);
                self.charge(state, amount, time, term)
            }
        }
    }

    /// Gives `amount` back into the place that was charged. (Slots come back
    /// by [`release`](Self::release).)
    #[inline]
    pub fn refund(
        &self,
        state: &mut State,
        amount: Amount,
        reference: ChargeReference,
        time: &DecisionTime,
    ) {
        match (self, state) {
            (Self::Bucket(kernel), State::Bucket(state)) => {
                kernel.refund(state, amount, reference, time);
            }
            (Self::Window(kernel), State::Window(state)) => kernel.refund(state, amount, reference),
            (Self::Ring(kernel), State::Ring(state)) => kernel.refund(state, amount, reference),
            (Self::Log(kernel), State::Log(state)) => {
                kernel.refund(state, amount, reference, time.now);
            }
            _ => {}
        }
    }

    /// Takes the slots of a holder back; `false` if it holds none (any more).
    #[inline]
    pub fn release(&self, state: &mut State, term: LeaseTerm, now: Timestamp) -> bool {
        match (self, state) {
            (Self::Slots(kernel), State::Slots(state)) => {
                kernel.release(state, term.id, term.expires_at, now)
            }
            _ => false,
        }
    }

    /// Changes how many slots a holder has, be they free or not; `false` if it holds
    /// nothing (any more).
    pub fn resize(
        &self,
        state: &mut State,
        term: LeaseTerm,
        weight: Amount,
        now: Timestamp,
    ) -> bool {
        match (self, state) {
            (Self::Slots(kernel), State::Slots(state)) => {
                kernel.resize(state, term.id, term.expires_at, weight, now)
            }
            _ => false,
        }
    }

    /// Moves a holder's expiry; `false` if it holds nothing (any more).
    pub fn renew(
        &self,
        state: &mut State,
        term: LeaseTerm,
        until: Timestamp,
        now: Timestamp,
    ) -> bool {
        match (self, state) {
            (Self::Slots(kernel), State::Slots(state)) => {
                kernel.renew(state, term.id, term.expires_at, until, now)
            }
            _ => false,
        }
    }

    /// Where the limit stands.
    #[must_use]
    pub fn standing(&self, state: &State, time: &DecisionTime) -> Standing {
        match (self, state) {
            (Self::Bucket(kernel), State::Bucket(state)) => kernel.standing(state, time),
            (Self::Window(kernel), State::Window(state)) => kernel.standing(state, time),
            (Self::Ring(kernel), State::Ring(state)) => kernel.standing(state, time),
            (Self::Log(kernel), State::Log(state)) => kernel.standing(state, time),
            (Self::Slots(kernel), State::Slots(state)) => kernel.standing(state, time),
            _ => Standing::full(self.capacity()),
        }
    }

    /// How many requests for `amount` fit now, and when one does.
    #[must_use]
    pub fn forecast(&self, state: &State, amount: Amount, time: &DecisionTime) -> Forecast {
        let standing = self.standing(state, time);
        Forecast {
            spendable: standing
                .remaining
                .checked_div(amount)
                .unwrap_or(standing.remaining),
            verdict: self.quote(state, amount, time),
            standing,
        }
    }

    /// From when `state` decides like "never seen". Every eviction and every
    /// time-to-live comes from here.
    #[must_use]
    pub fn forget_at(&self, state: &State) -> Timestamp {
        match (self, state) {
            (Self::Bucket(kernel), State::Bucket(state)) => kernel.forget_at(state),
            (Self::Window(kernel), State::Window(state)) => kernel.forget_at(state),
            (Self::Ring(kernel), State::Ring(state)) => kernel.forget_at(state),
            (Self::Log(kernel), State::Log(state)) => kernel.forget_at(state),
            (Self::Slots(kernel), State::Slots(state)) => kernel.forget_at(state),
            _ => Timestamp::MIN,
        }
    }

    /// Carries a state over from the rule that wrote it. Between kinds what is
    /// in use stays in use, as if it was taken now; holders of slots do not carry
    /// over into a rate, nor the reverse.
    ///
    /// Two servers may know two versions of a limit for a while. However often a
    /// state is carried to and fro between them, both together admit no more than
    /// one with the larger capacity, the faster rate and the shorter window would.
    ///
    /// A change from before the state was written last is followed as of then: some
    /// server had gone on by the older version. (Of a clock that stepped back the
    /// next [`observe`](Self::observe) takes note.)
    pub fn adopt(&self, state: &mut State, old: &Self, time: &DecisionTime) {
        let time = &DecisionTime {
            now: time.now.max(old.latest(state)),
            ..*time
        };
        match (self, old, &mut *state) {
            (Self::Bucket(new), Self::Bucket(old), State::Bucket(state)) => {
                new.adopt(state, old, time.now);
            }
            (Self::Window(new), Self::Window(old), State::Window(state)) => {
                new.adopt(state, old, time);
            }
            (Self::Ring(new), Self::Ring(old), State::Ring(state)) => {
                new.adopt(state, old, time.now);
            }
            (Self::Log(new), Self::Log(old), State::Log(state)) => {
                new.adopt(state, old, time.now);
            }
            (Self::Slots(_), Self::Slots(_), _) => {}
            _ => self.adopt_usage(state, old, time),
        }
    }

    /// The latest instant that a state which this rule wrote tells of.
    fn latest(&self, state: &State) -> Timestamp {
        match (self, state) {
            (Self::Bucket(_), State::Bucket(state)) => state.at,
            (Self::Window(_), State::Window(state)) => state.start,
            (Self::Ring(kernel), State::Ring(state)) => kernel.latest(state),
            (Self::Log(_), State::Log(state)) => state.newest().unwrap_or(Timestamp::MIN),
            _ => Timestamp::MIN,
        }
    }

    fn adopt_usage(&self, state: &mut State, old: &Self, time: &DecisionTime) {
        let standing = old.standing(state, time);
        let used = match (old, &*state) {
            (Self::Bucket(old), State::Bucket(state)) => old.used(state, time.now),
            _ => standing.limit - standing.remaining + standing.debt,
        };
        *state = State::Fresh;
        if used == 0 || self.is_held() || old.is_held() {
            return;
        }
        if let Self::Bucket(new) = self {
            let full_at = standing.full_at.unwrap_or(time.now);
            new.take_over(own!(state, Bucket), used, full_at, time.now);
        } else {
            self.charge(state, used, time, None);
        }
    }
}
