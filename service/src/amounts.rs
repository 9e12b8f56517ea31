//! Amounts as requests say them, in the units of a policy's limits.

use smallvec::SmallVec;

use super::active_policy::ActivePolicy;
use super::error::ServiceError;
use tidegate::{Limit, RequestError, Unit};

/// Amounts by limit, as they were said; a few, as a rule.
pub type Amounts<'a> = SmallVec<[(&'a str, Number<'a>); 4]>;

/// An amount as a request says it: of whole ones, whatever a limit's unit is, or of whole
/// units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number<'a> {
    /// A whole number of ones.
    Whole(u64),
    /// A decimal, such as `0.25`.
    Decimal(&'a str),
    /// A whole number of the limit's units.
    Units(u64),
}

impl Number<'_> {
    fn of(self, limit: &str, unit: Unit) -> Result<u64, ServiceError> {
        let amount = match self {
            Self::Whole(number) => unit.ones(number),
            Self::Decimal(text) => unit.parse(text),
            Self::Units(number) => Ok(number),
        };
        let wrong = |source| RequestError::Amount {
            limit: limit.to_owned(),
            source,
        };
        Ok(amount.map_err(wrong)?)
    }
}

impl ActivePolicy {
    /// The unit of the limit of that name (one for all members of a pool that have it);
    /// 1, if there is no such limit.
    #[must_use]
    pub fn unit(&self, limit: &str) -> Unit {
        if !self.has_units() {
            return Unit::ONE;
        }
        let mut limits = self.policy().limit_lists().flatten();
        let found = limits.find(|known| known.name() == limit);
        found.map_or(Unit::ONE, Limit::amounts)
    }

    /// `number` of the limit of that name, in its unit.
    ///
    /// # Errors
    /// [`RequestError::Amount`]: finer than the unit, more than 2^53 - 1 of it, or no decimal.
    #[inline]
    pub fn amount(&self, limit: &str, number: Number<'_>) -> Result<u64, ServiceError> {
        number.of(limit, self.unit(limit))
    }

    /// `number` of every rate that is not `named`, in their unit; of a pool, of the rates of
    /// `member`, or of all if none is named.
    ///
    /// # Errors
    /// [`ServiceError::CostOfUnits`] where they have several; as [`amount`](Self::amount).
    pub fn cost(
        &self,
        number: Number<'_>,
        member: Option<&str>,
        named: &[(&str, u64)],
    ) -> Result<u64, ServiceError> {
        // Nothing is as much in every unit.
        if !self.has_units() || matches!(number, Number::Whole(0) | Number::Units(0)) {
            return number.of("cost", Unit::ONE);
        }
        let is_named = |limit: &&Limit| named.iter().any(|(name, _)| *name == limit.name());
        let policy = self.policy();
        let of_member = policy.members.iter().find(|one| Some(&*one.name) == member);
        let all = policy.limit_lists().filter(|_| of_member.is_none());
        let limits = all.chain(of_member.map(|member| &*member.limits)).flatten();
        let mut rates = limits.filter(|limit| !limit.is_counted() && !is_named(limit));
        let Some(first) = rates.next() else {
            return number.of("cost", Unit::ONE);
        };
        if let Some(other) = rates.find(|other| other.amounts() != first.amounts()) {
            return Err(ServiceError::CostOfUnits {
                one: first.name().to_owned(),
                other: other.name().to_owned(),
            });
        }
        number.of(first.name(), first.amounts())
    }
}
