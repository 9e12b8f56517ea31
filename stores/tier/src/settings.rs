//! How a table is tiered.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate_store::core::{Amount, MAX_AMOUNT, Rule, RuleError, Span};
use tidegate_store::{Plan, PlanLimit};

use crate::exact::{self, NoRule};
use crate::outstanding::{is_slots, name_of_slots};

/// Decides near the caller: how much a node takes in advance, and for how long; or that it
/// remembers refusals alone.
///
/// ```
/// use std::time::Duration;
/// use tidegate_tier::Tier;
///
/// let tier = Tier::leased(100).batch_of("tokens", 50_000).hold(Duration::from_secs(1));
/// assert!(tier.check().is_ok());
/// assert!(Tier::leased(0).check().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tier {
    /// Whether units are taken in advance; else only refusals are remembered.
    is_leased: bool,
    batch: Amount,
    batches: BTreeMap<String, Amount>,
    outstanding: Option<Amount>,
    outstandings: BTreeMap<String, Amount>,
    is_exact: bool,
    hold: Duration,
    low_water: u8,
    idle: Duration,
    /// A setting that was made and is for grants alone.
    misused: Option<&'static str>,
}

/// Why a set cannot be tiered so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TierError {
    /// No such batch.
    #[error("a batch is 1 to 9007199254740991 units, not {0}")]
    Batch(Amount),
    /// A batch, or what may be out, is for no limit.
    #[error("the tier says something of `{0}`, and there is no limit of that name")]
    UnknownLimit(String),
    /// No such bound of what may be out.
    #[error("`outstanding` is 1 to 9007199254740991 units, not {0}")]
    Outstanding(Amount),
    /// What may be out leaves an exact bucket nothing.
    #[error(
        "`exact` leaves the bucket `{limit}` nothing: its burst is {burst}, of which {out} may be out; raise its burst, or lower `outstanding` or `hold`"
    )]
    NoBurst {
        /// The limit.
        limit: String,
        /// Its burst.
        burst: Amount,
        /// What may be out.
        out: Amount,
    },
    /// A window that is longer by the hold is none.
    #[error("`exact` makes the window of `{limit}` longer by `hold`, and that is none: {source}")]
    NoWindow {
        /// The limit.
        limit: String,
        /// Why.
        source: RuleError,
    },
    /// Too short or too long.
    #[error("`{0}` of a tier is from 10 ms to 60 s, not {1:?}")]
    Time(&'static str, Duration),
    /// A setting of grants, where none are taken.
    #[error("`{0}` is for `Tier::leased`: a tier that remembers refusals takes nothing in advance")]
    OfLeased(&'static str),
    /// More than all of the batch.
    #[error("`low_water` is in hundredths of a batch: from 0 to 100, not {0}")]
    LowWater(u8),
    /// A limit that no node can take units of in advance.
    #[error("the limit `{0}` {1}: leave `tier` out, or put the limit into a policy of its own")]
    CannotLease(String, &'static str),
}

impl TierError {
    fn of(name: &str, why: NoRule) -> Self {
        let limit = name.to_owned();
        match why {
            NoRule::Burst { burst, out } => Self::NoBurst { limit, burst, out },
            NoRule::Window(source) => Self::NoWindow { limit, source },
        }
    }
}

impl Tier {
    /// The shortest and the longest time for which a grant is held, or lies idle, or a refusal is
    /// remembered.
    pub const TIMES: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

    /// Grants of `batch` units of each limit (1 to 2^53 - 1, and no more than its capacity):
    /// held for a second, asked for when a fifth of the last is left, given back after a
    /// second without a request.
    #[must_use]
    pub const fn leased(batch: Amount) -> Self {
        Self {
            is_leased: true,
            batch,
            batches: BTreeMap::new(),
            outstanding: None,
            outstandings: BTreeMap::new(),
            is_exact: false,
            hold: Duration::from_secs(1),
            low_water: 20,
            idle: Duration::from_secs(1),
            misused: None,
        }
    }

    /// Nothing is taken in advance; a refusal is remembered until the instant that it names, for
    /// a second at most ([`idle`](Self::idle) says another time), and refuses what asks for as
    /// much or more. All limits may be so; what slots or an adaptive limit refuse is not
    /// remembered. A refund or a raised limit that comes from elsewhere is noticed when that
    /// time is over.
    #[must_use]
    pub const fn refusals() -> Self {
        Self {
            is_leased: false,
            batch: 1,
            batches: BTreeMap::new(),
            outstanding: None,
            outstandings: BTreeMap::new(),
            is_exact: false,
            hold: Duration::from_secs(1),
            low_water: 0,
            idle: Duration::from_secs(1),
            misused: None,
        }
    }

    /// Another batch of the limit called `limit`, whose units are larger or smaller. Of a
    /// concurrency limit it is how many slots a node holds at a time, to give them out as leases
    /// without asking: 2 or more, and no more than its capacity. One of which nothing is said is the
    /// store's.
    #[must_use]
    pub fn batch_of(mut self, limit: impl Into<String>, batch: Amount) -> Self {
        self.batches.insert(limit.into(), batch);
        self.of_leased("batch_of")
    }

    /// Of each limit no more than so many units of a key are out at nodes at any time, 1 to
    /// 2^53 - 1, however many nodes there are; not bounded if not said. When as much is out, the
    /// store decides. The store holds it, as slots of each grant's lease.
    #[must_use]
    pub const fn outstanding(mut self, units: Amount) -> Self {
        self.outstanding = Some(units);
        self.of_leased("outstanding")
    }

    /// Another bound of the limit called `limit`, whose units are larger or smaller.
    #[must_use]
    pub fn outstanding_of(mut self, limit: impl Into<String>, units: Amount) -> Self {
        self.outstandings.insert(limit.into(), units);
        self.of_leased("outstanding_of")
    }

    /// What nodes admit is within the limits, as without a tier: the store decides by a burst
    /// that is less by what may be out (which is [`outstanding`](Self::outstanding), or what
    /// comes back in a [`hold`](Self::hold), if that is less), and by sliding windows that are
    /// longer by the hold. Windows that begin and end are exact in any case.
    #[must_use]
    pub const fn exact(mut self) -> Self {
        self.is_exact = true;
        self.of_leased("exact")
    }

    /// For how long a grant is spent at most, from 10 ms to 60 s: what this node holds may be
    /// used so much later than it was charged.
    #[must_use]
    pub const fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self.of_leased("hold")
    }

    /// The next grant is asked for when less than so many hundredths of a batch are left, 0 to
    /// 100; 0: when a request finds too little.
    #[must_use]
    pub const fn low_water(mut self, hundredths: u8) -> Self {
        self.low_water = hundredths;
        self.of_leased("low_water")
    }

    /// What is not spent goes back after so long without a request for its key, from 10 ms to
    /// 60 s. A refusal is remembered for no longer, either.
    #[must_use]
    pub const fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    const fn of_leased(mut self, setting: &'static str) -> Self {
        if !self.is_leased {
            self.misused = Some(setting);
        }
        self
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// The first that is out of its range.
    pub fn check(&self) -> Result<(), TierError> {
        if let Some(setting) = self.misused {
            return Err(TierError::OfLeased(setting));
        }
        let batches = std::iter::once(&self.batch).chain(self.batches.values());
        for &batch in batches {
            if !(1..=MAX_AMOUNT).contains(&batch) {
                return Err(TierError::Batch(batch));
            }
        }
        let bounds = self.outstanding.iter().chain(self.outstandings.values());
        for &units in bounds {
            if !(1..=MAX_AMOUNT).contains(&units) {
                return Err(TierError::Outstanding(units));
            }
        }
        for (name, time) in [("hold", self.hold), ("idle", self.idle)] {
            if !Self::TIMES.contains(&time) {
                return Err(TierError::Time(name, time));
            }
        }
        match self.low_water {
            0..=100 => Ok(()),
            more => Err(TierError::LowWater(more)),
        }
    }

    /// Checks that the limits of `plan` can be tiered so.
    ///
    /// # Errors
    /// As [`check`](Self::check); a limit that cannot be leased; a batch, or a bound, for none.
    pub fn check_for(&self, plan: &Plan) -> Result<(), TierError> {
        self.check()?;
        if !self.is_leased {
            return Ok(());
        }
        let leased = || plan.limits().iter().filter(|limit| !is_slots(limit));
        for limit in leased() {
            if let Some(why) = cannot_tier(limit) {
                return Err(TierError::CannotLease(limit.name.to_string(), why));
            }
        }
        let is_limit = |name: &String| leased().any(|limit| *limit.name == **name);
        let mut named = self.batches.keys().chain(self.outstandings.keys());
        match named.find(|name| !is_limit(name)) {
            Some(name) => Err(TierError::UnknownLimit(name.clone())),
            None => Ok(()),
        }
    }

    /// Whether units are taken in advance; else only refusals are remembered.
    #[must_use]
    pub const fn is_leased(&self) -> bool {
        self.is_leased
    }

    /// How many slots of the concurrency limit called `name`, of so many, a node holds at a time to
    /// give them out as leases: what [`batch_of`](Self::batch_of) says of it. `None`: the store
    /// gives out each, as one, or none, is said, or there is only one.
    #[must_use]
    pub fn slots_at_a_time(&self, name: &str, capacity: Amount) -> Option<Amount> {
        let batch = self.batches.get(name).copied().unwrap_or(1).min(capacity);
        (self.is_leased && batch > 1).then_some(batch)
    }

    /// Whether nodes hold slots of `limit`.
    pub(crate) fn leases_slots(&self, limit: &PlanLimit) -> bool {
        limit.rule.is_held() && self.slots_for(limit) > 0
    }

    fn slots_for(&self, limit: &PlanLimit) -> Amount {
        let slots = self.slots_at_a_time(&limit.name, limit.rule.capacity());
        slots.unwrap_or(0)
    }

    /// Whether nodes hold slots of some limit of `plan`.
    pub(crate) fn leases_slots_of(&self, plan: &Plan) -> bool {
        !self.batches.is_empty() && plan.limits().iter().any(|limit| self.leases_slots(limit))
    }

    /// What is asked for of `limit` at a time; nothing of slots that no node gives out.
    pub(crate) fn batch_for(&self, limit: &PlanLimit) -> Amount {
        if limit.rule.is_held() {
            return self.slots_for(limit);
        }
        self.units_at_a_time(&limit.name).min(limit.rule.capacity())
    }

    /// What is asked for of `limit` at most, whatever waits: more than may be out is charged and
    /// not spent.
    pub(crate) fn most_for(&self, limit: &PlanLimit) -> Amount {
        if limit.rule.is_held() {
            return limit.rule.capacity();
        }
        let out = self.outstanding_for(&limit.name).unwrap_or(Amount::MAX);
        out.min(limit.rule.capacity())
    }

    /// How many units of the limit called `name` a grant asks for, if its capacity is no less.
    #[must_use]
    pub fn units_at_a_time(&self, name: &str) -> Amount {
        let batch = self.batches.get(name).copied().unwrap_or(self.batch);
        batch.min(self.outstanding_for(name).unwrap_or(Amount::MAX))
    }

    /// For how long a grant is spent at most.
    #[must_use]
    pub const fn longest_hold(&self) -> Duration {
        self.hold
    }

    /// How much of the limit called `name` may be out, if that is bounded.
    #[must_use]
    pub fn outstanding_for(&self, name: &str) -> Option<Amount> {
        self.outstandings.get(name).copied().or(self.outstanding)
    }

    /// Beside the limit called `name` a plan in this tier has one of slots: called so, and with
    /// so many. `None`: what is out of it is not bounded.
    #[must_use]
    pub fn slots_beside(&self, name: &str) -> Option<(String, Amount)> {
        Some((name_of_slots(name), self.outstanding_for(name)?))
    }

    /// What the store decides about the limit called `name` by, whose rule is `rule`: that, or
    /// less of it where it is to be [exact](Self::exact).
    ///
    /// # Errors
    /// [`TierError::NoBurst`], [`TierError::NoWindow`].
    pub fn store_rule(&self, name: &str, rule: Rule) -> Result<Rule, TierError> {
        match self.is_exact {
            true => exact::rule(rule, self.hold_span(), self.outstanding_for(name))
                .map_err(|why| TierError::of(name, why)),
            false => Ok(rule),
        }
    }

    /// By how much nodes, however many, may together exceed the limit called `name`, whose rule is
    /// `rule`, at most: in any time of a bucket, in any window of one that rolls. 0: not at all.
    #[must_use]
    pub fn beyond(&self, name: &str, rule: &Rule) -> Amount {
        match self.is_leased() && !self.is_exact {
            true => exact::beyond(rule, self.hold_span(), self.outstanding_for(name)),
            false => 0,
        }
    }

    pub(crate) fn hold_span(&self) -> Span {
        Span::from(self.hold)
    }

    pub(crate) const fn low_water_hundredths(&self) -> u8 {
        self.low_water
    }

    pub(crate) fn idle_span(&self) -> Span {
        Span::from(self.idle)
    }
}

/// Whether units of all limits of `plan` can be taken in advance, or are slots.
pub(crate) fn can_lease(plan: &Plan) -> bool {
    let mut limits = plan.limits().iter();
    !plan.limits().is_empty() && limits.all(|limit| cannot_tier(limit).is_none() || is_slots(limit))
}

const ADAPTIVE: &str =
    "is adaptive: a change of its capacity would not reach units that were taken in advance";

/// Why `limit` is in no tier of leases, if it is not. Slots are: a node gives them out, or the
/// store does.
fn cannot_tier(limit: &PlanLimit) -> Option<&'static str> {
    match limit.rule {
        Rule::Slots(_) if limit.adaptive.is_some() => Some(ADAPTIVE),
        Rule::Slots(_) if limit.rule.capacity() == 1 => Some(
            "is a mutex (a concurrency of 1), whose holders need a fence, and no node gives one",
        ),
        Rule::Slots(_) => None,
        _ => cannot_lease(limit),
    }
}

/// Why units of `limit` cannot be taken in advance, if they cannot: words that go on from its
/// name.
#[must_use]
pub const fn cannot_lease(limit: &PlanLimit) -> Option<&'static str> {
    if matches!(limit.rule, Rule::Slots(_)) {
        return Some("is a concurrency limit, and slots cannot be granted in advance");
    }
    if limit.adaptive.is_some() {
        return Some(ADAPTIVE);
    }
    if limit.refund_on_expiry {
        return Some(
            "has `on_failure = \"refund\"`: a grant that expires would give back units that were spent",
        );
    }
    None
}
