//! What a store answers.

use smallvec::SmallVec;
use tidegate_core::{Amount, BucketLevel, Rule, Standing, Timestamp, Verdict};

use crate::error::StoreError;
use crate::listing::{HeldLease, Page};
use crate::owned::OwnedKey;
use crate::plan::Plan;
use crate::usage::Usage;

/// What comes of a command.
pub type Answer = Result<Reply, StoreError>;

/// The answer to a command. Whoever asked for little is answered by little.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// To adopt, renew and reset.
    Done,
    /// To a take that asks for no more
    /// ([`Detail::Verdict`](crate::Detail::Verdict)).
    Verdict(Verdict),
    /// To a take of one bucket without ancestors that asks for its standing.
    One(Verdict, BucketLevel),
    /// To take, debit, peek and adjust.
    Decision(Decision),
    /// To a take that may be [partial](crate::Terms::least) and was granted.
    Partial(Box<Partial>),
    /// To end.
    Settled(Settlement),
    /// To a listing of keys.
    Keys(Page<OwnedKey>),
    /// To a listing of leases.
    Leases(Page<HeldLease>),
    /// To a listing of usage.
    Usage(Page<Usage>),
    /// To a count.
    Count(Count),
    /// To a batch: an answer to each, in its order.
    Batch(Vec<Answer>),
}

/// How much a table holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// Keys, with the ancestors that have state: what was only looked at, or refused,
    /// is none.
    pub keys: usize,
    /// Leases that are held; `None` if counting them takes long.
    pub leases: Option<usize>,
    /// Leases that are remembered after their end; `None` as well.
    pub remembered: Option<usize>,
}

impl Reply {
    /// The verdict of a take, debit or peek.
    #[inline]
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Verdict(verdict) | Self::One(verdict, _) => Some(*verdict),
            Self::Decision(decision) => Some(decision.verdict),
            Self::Partial(partial) => Some(partial.decision.verdict),
            _ => None,
        }
    }

    /// Whether there is nothing to give back when it goes.
    #[inline]
    pub(crate) fn owns_nothing(&self) -> bool {
        // Compared one after the other: that is less than a jump by a table.
        if let Self::Decision(decision) = self {
            return !decision.standings.spilled();
        }
        if let Self::Settled(settlement) = self {
            return !settlement.uses.spilled();
        }
        !matches!(
            self,
            Self::Keys(_) | Self::Leases(_) | Self::Usage(_) | Self::Batch(_) | Self::Partial(_)
        )
    }

    /// The decision in full, however short it came.
    ///
    /// # Errors
    /// [`StoreError::Mismatch`] if it is none.
    pub fn decision(self) -> Result<Decision, StoreError> {
        match self {
            Self::Decision(decision) => Ok(decision),
            Self::Partial(partial) => Ok(partial.decision),
            Self::Verdict(verdict) => Ok(Decision::single(verdict)),
            Self::One(verdict, level) => {
                let mut decision = Decision::single(verdict);
                decision.standings.push(Some(level.standing()));
                Ok(decision)
            }
            _ => Err(StoreError::Mismatch),
        }
    }

    /// How a lease has ended.
    ///
    /// # Errors
    /// [`StoreError::Mismatch`] if it says nothing of that.
    pub fn settled(self) -> Result<Settlement, StoreError> {
        match self {
            Self::Settled(settlement) => Ok(settlement),
            _ => Err(StoreError::Mismatch),
        }
    }

    /// Whether a lease was granted, by this or by an earlier answer.
    #[must_use]
    pub fn has_lease(&self) -> bool {
        let decision = self.full_decision();
        decision.is_some_and(|decision| decision.lease.is_some())
    }

    /// The lease that was granted by this, and not by an earlier answer.
    #[must_use]
    pub fn new_lease(&self) -> Option<u128> {
        let lease = self.full_decision()?.lease;
        lease.filter(|lease| !lease.repeated).map(|lease| lease.id)
    }

    /// The decision that was answered in full, of all that was asked or of a part.
    #[must_use]
    pub fn full_decision(&self) -> Option<&Decision> {
        match self {
            Self::Decision(decision) => Some(decision),
            Self::Partial(partial) => Some(&partial.decision),
            _ => None,
        }
    }
}

/// May it start, and where does everything stand?
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// Which of the plan's limits binds: whose refusal lasts longest.
    pub binding: Option<usize>,
    /// The levels at which some limit refused: bit 0 is the outermost.
    pub refused_levels: u8,
    /// For a refusal where some limit gives its amounts back when a lease
    /// expires: when the next lease may do so, and asking again makes sense.
    pub refund_at: Option<Timestamp>,
    /// A shadow limit would have refused.
    pub shadowed: bool,
    /// For each of the plan's limits its standing after the step; `None` where
    /// the key does not reach the level. Empty unless asked for.
    pub standings: SmallVec<[Option<Standing>; 1]>,
    /// The lease made, or adjusted.
    pub lease: Option<Granted>,
}

impl Decision {
    /// A bare verdict on one limit without ancestors.
    fn single(verdict: Verdict) -> Self {
        let refused = !verdict.admitted();
        let mut decision = Self::bare(verdict, refused.then_some(0));
        decision.refused_levels = u8::from(refused);
        decision
    }

    /// The same, but not before `until`; then no limit binds.
    #[must_use]
    pub fn not_before(mut self, until: Timestamp) -> Self {
        let verdict = self.verdict.put_off(until);
        if verdict != self.verdict {
            (self.verdict, self.binding) = (verdict, None);
        }
        self
    }

    /// Whether a rate of `plan`, by which this was decided, admits it after `deadline`
    /// only, unless something is given back to it. Not where the limit that refuses longest
    /// is one of slots, which may be released at any time; where its capacity is adapted; or
    /// where a lease that expires by the deadline gives back what it took.
    #[must_use]
    pub fn is_too_late_for(&self, plan: &Plan, deadline: Timestamp) -> bool {
        let Verdict::NotUntil(at) = self.verdict else {
            return false;
        };
        let binding = self.binding.and_then(|limit| plan.limits().get(limit));
        binding.is_some_and(|limit| {
            let may_change = matches!(limit.rule, Rule::Slots(_)) || limit.adaptive.is_some();
            let refund_at = self
                .refund_at
                .or(limit.refund_on_expiry.then_some(deadline));
            !may_change && refund_at.map_or(at, |refund| refund.min(at)) > deadline
        })
    }

    /// A bare verdict.
    #[inline]
    #[must_use]
    pub fn bare(verdict: Verdict, binding: Option<usize>) -> Self {
        Self {
            verdict,
            binding,
            refused_levels: 0,
            refund_at: None,
            shadowed: false,
            standings: SmallVec::new(),
            lease: None,
        }
    }
}

/// What a take that may be partial was granted.
#[derive(Clone, PartialEq, Debug)]
pub struct Partial {
    /// That it was admitted, with its lease and always with the standings.
    pub decision: Decision,
    /// How much was taken of each of the plan's limits; 0 where the key does not reach its
    /// level. (A shadow that would have refused is said to have given all.)
    pub amounts: SmallVec<[Amount; 3]>,
    /// Until when it is good, by the clock that [`Granted::expires_at`] is by: the end of the
    /// first of the windows that were charged, or when the lease expires, whichever is first.
    /// Buckets, rolling windows and slots have the latter alone. Used after that, a unit
    /// would count in a window that it was not taken from.
    pub good_until: Timestamp,
}

impl Partial {
    /// Of a decision that admitted `amounts` of `plan`'s limits as a lease, with its standings.
    #[must_use]
    pub fn new(plan: &Plan, decision: Decision, amounts: &[Amount]) -> Self {
        let mut taken: SmallVec<[Amount; 3]> = amounts.into();
        taken.resize(plan.limits().len(), 0);
        let lease = decision
            .lease
            .map_or(Timestamp::MIN, |lease| lease.expires_at);
        let ends = plan.limits().iter().zip(&taken).zip(&decision.standings);
        let ends = ends.filter_map(|((limit, &amount), standing)| match limit.rule {
            Rule::Window(_) if amount > 0 => standing.as_ref()?.replenish_at,
            _ => None,
        });
        let good_until = ends.fold(lease, Timestamp::min);
        Self {
            decision,
            amounts: taken,
            good_until,
        }
    }
}

/// A lease as given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Its id (the earlier one's, for a repeated idempotency key).
    pub id: u128,
    /// When it was granted, by the clock that decided; for one that waited, the end of its
    /// wait. Neither a renewal nor an adjustment changes it.
    pub granted_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Larger than that of every earlier lease on the same slots; 0 without slots.
    pub fence: u64,
    /// It was given before, to a request with the same idempotency key.
    pub repeated: bool,
}

/// How a lease ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settlement {
    /// It had expired: slots were back already; the real use was charged.
    pub expired: bool,
    /// This is the answer given before: nothing was changed this time.
    pub repeated: bool,
    /// For each limit that was taken, by its `uid`: taken and used.
    pub uses: SmallVec<[Use; 3]>,
}

/// What one limit's share of a lease came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    /// The limit's [`uid`](crate::PlanLimit::uid).
    pub uid: u32,
    /// What was taken at first.
    pub taken: Amount,
    /// What was used in the end. More was charged as debt; less was given back,
    /// but for what had drained from a bucket by then: that is free already.
    pub used: Amount,
}
