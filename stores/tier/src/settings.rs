//! How a table is tiered.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate_store::core::{Amount, MAX_AMOUNT, Rule, Span};
use tidegate_store::{Plan, PlanLimit};

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
    /// A batch is for no limit.
    #[error("the tier has a batch for `{0}`, and there is no limit of that name")]
    UnknownLimit(String),
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
            hold: Duration::from_secs(1),
            low_water: 0,
            idle: Duration::from_secs(1),
            misused: None,
        }
    }

    /// Another batch of the limit called `limit`, whose units are larger or smaller.
    #[must_use]
    pub fn batch_of(mut self, limit: impl Into<String>, batch: Amount) -> Self {
        self.batches.insert(limit.into(), batch);
        self.of_leased("batch_of")
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
    /// As [`check`](Self::check); a limit that cannot be leased; a batch for none.
    pub fn check_for(&self, plan: &Plan) -> Result<(), TierError> {
        self.check()?;
        if !self.is_leased {
            return Ok(());
        }
        for limit in plan.limits() {
            if let Some(why) = cannot_lease(limit) {
                return Err(TierError::CannotLease(limit.name.to_string(), why));
            }
        }
        let is_limit = |name: &String| plan.limits().iter().any(|limit| *limit.name == **name);
        match self.batches.keys().find(|name| !is_limit(name)) {
            Some(name) => Err(TierError::UnknownLimit(name.clone())),
            None => Ok(()),
        }
    }

    /// Whether units are taken in advance; else only refusals are remembered.
    #[must_use]
    pub const fn is_leased(&self) -> bool {
        self.is_leased
    }

    /// What is asked for of `limit` at a time.
    pub(crate) fn batch_for(&self, limit: &PlanLimit) -> Amount {
        let batch = self.batches.get(&*limit.name).copied();
        batch.unwrap_or(self.batch).min(limit.rule.capacity())
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

/// Whether units of all limits of `plan` can be taken in advance.
pub(crate) fn can_lease(plan: &Plan) -> bool {
    !plan.limits().is_empty()
        && plan
            .limits()
            .iter()
            .all(|limit| cannot_lease(limit).is_none())
}

/// Why units of `limit` cannot be taken in advance, if they cannot.
const fn cannot_lease(limit: &PlanLimit) -> Option<&'static str> {
    if matches!(limit.rule, Rule::Slots(_)) {
        return Some("is a concurrency limit, whose slots no node holds for others");
    }
    if limit.adaptive.is_some() {
        return Some("is adaptive, and its capacity would hold for later requests alone");
    }
    if limit.refund_on_expiry {
        return Some("gives back what a lease has taken when it expires, also what was used");
    }
    None
}
