//! Which policy a call means, whose limits of it, and how much of them.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{GrantTerms, OfLease, Question, Uses};
use crate::access::Caller;
use crate::active_policy::{ActivePolicy, Charge};
use crate::amounts::Number;
use crate::answer::Decided;
use crate::entities::{EntityPath, of_own_level};
use crate::error::ServiceError;
use crate::field::Field;
use crate::overrides::AddedLimit;
use crate::service::Service;
use crate::spans;
use crate::whose::Whose;
use tidegate::internal::{is_reserved, random_lease_id};
use tidegate::{Error, Key, LeaseId, Request, RequestError};
use tidegate_policy::Scope;

/// How much of which limit, in its units.
pub(super) type InUnits<'a> = SmallVec<[(&'a str, u64); 8]>;

/// A policy, and whose limits of it.
pub(super) struct Meant<'a> {
    pub(super) active: Arc<ActivePolicy>,
    pub(super) key: Cow<'a, [u8]>,
    /// Of an entity: it and its ancestors.
    pub(super) path: Option<Arc<EntityPath>>,
    /// Where ancestors are not charged, the limits that it and they have beside the policy's.
    added: Vec<AddedLimit>,
}

/// How much is asked of the limits.
pub(super) struct Said<'a> {
    cost: Option<Number<'a>>,
    member: Option<&'a str>,
    amounts: Cow<'a, [(&'a str, Number<'a>)]>,
}

impl Meant<'_> {
    /// Why nothing was said of an entity that is above the keys of the policy: nobody wrote a key.
    pub(super) fn of_level(&self, error: impl Into<ServiceError>) -> ServiceError {
        let error = error.into();
        let is_depth = matches!(
            &error,
            ServiceError::Limits(Error::Request(RequestError::KeyDepth { .. }))
        );
        let path = self.path.as_ref().filter(|_| is_depth);
        match path.map(|path| path.check_level(&self.active)) {
            Some(Err(wrong)) => wrong.into(),
            _ => error,
        }
    }

    /// Whether an error is that there is no limit of a name that was said to leave that limit out.
    pub(super) fn names_added(&self, error: &ServiceError) -> bool {
        match error {
            ServiceError::Limits(Error::Request(RequestError::UnknownLimit { name, .. })) => {
                self.added.iter().any(|added| added.name == *name)
            }
            _ => false,
        }
    }

    #[inline]
    pub(super) fn key(&self) -> Key<'_> {
        Key::from(&*self.key)
    }

    pub(super) fn charged(&self, charge: Charge) -> Decided {
        Decided::charged(Arc::clone(&self.active), charge, self.path.clone())
    }

    /// What `question` asks, of the limits that are to be asked.
    #[inline]
    pub(super) fn said<'s>(&'s self, question: &'s Question<'_>) -> Said<'s> {
        let asked = (question.cost, question.member, &*question.amounts);
        self.said_by(asked, true)
    }

    pub(super) fn said_of_lease<'s>(&'s self, uses: &'s Uses<'_>) -> Said<'s> {
        self.said_by((uses.cost, None, &uses.amounts), false)
    }

    pub(super) fn said_least<'s>(&'s self, terms: &'s GrantTerms<'_>) -> Said<'s> {
        self.said_by((None, None, &terms.least), false)
    }

    #[inline]
    fn said_by<'s>(
        &'s self,
        (cost, member, amounts): (
            Option<Number<'s>>,
            Option<&'s str>,
            &'s [(&'s str, Number<'s>)],
        ),
        is_taken_now: bool,
    ) -> Said<'s> {
        match &self.path {
            Some(path) if !path.charges_parents() => {
                let asked = (cost, amounts);
                let whose = (&**path, &*self.added);
                let amounts = of_own_level(&self.active, whose, asked, is_taken_now);
                Said {
                    cost: None,
                    member,
                    amounts: amounts.into_vec().into(),
                }
            }
            _ => Said {
                cost,
                member,
                amounts: amounts.into(),
            },
        }
    }
}

impl Said<'_> {
    #[inline]
    pub(super) fn in_units(&self, meant: &Meant<'_>) -> Result<InUnits<'_>, ServiceError> {
        meant.active.in_units(&self.amounts)
    }

    /// As the engine is asked.
    #[inline]
    pub(super) fn request<'u>(
        &self,
        meant: &Meant<'_>,
        in_units: &'u [(&'u str, u64)],
    ) -> Result<Request<'u>, ServiceError> {
        meant.active.request(self.cost, self.member, in_units)
    }
}

impl Service {
    #[inline]
    pub(super) async fn meant<'a>(
        &self,
        caller: &Caller,
        scope: Scope,
        question: &Question<'a>,
    ) -> Result<Meant<'a>, ServiceError> {
        let meant = self
            .policy_of(caller, scope, question.policy, question.whose)
            .await?;
        // What is taken is taken of every level; a look, and the end of a lease, is of any.
        if let (Scope::Decide, Some(path)) = (scope, &meant.path) {
            spans::record_error(path.check_level(&meant.active).map_err(ServiceError::from))?;
        }
        Ok(meant)
    }

    pub(super) async fn of_lease<'a>(
        &self,
        caller: &Caller,
        of: &OfLease<'a>,
    ) -> Result<Meant<'a>, ServiceError> {
        self.policy_of(caller, Scope::Decide, of.policy, of.whose)
            .await
    }

    /// The policy, and whose limits of it are meant. Who may not ask the policy is told nothing
    /// of entities.
    #[inline]
    pub(super) async fn policy_of<'a>(
        &self,
        caller: &Caller,
        scope: Scope,
        policy: &str,
        whose: Whose<'a>,
    ) -> Result<Meant<'a>, ServiceError> {
        let active = match whose {
            Whose::Key(key) => self.policy_for(caller, scope, policy, key.into())?,
            Whose::Entity(_) => self.policy(caller, scope, policy)?,
        };
        let found = spans::record_error(self.found(whose).await)?;
        if let Some(path) = &found.path {
            spans::record_error(path.check_reach(&active).map_err(ServiceError::from))?;
        }
        let alone = found.path.as_ref().filter(|path| !path.charges_parents());
        let added = alone.map(|_| self.added_limits(&active, &found.key));
        Ok(Meant {
            active,
            key: found.key,
            path: found.path,
            added: added.unwrap_or_default(),
        })
    }
}

impl GrantTerms<'_> {
    /// The lease that it is to be.
    pub(super) fn id(&self) -> Result<LeaseId, ServiceError> {
        match self.lease {
            Some(id) if is_reserved(id.to_u128()) => Err(ServiceError::Form {
                field: Field::Lease,
                wrong: "ids that begin with 6772616e742e7467, 736c6f74732e7467 or 6c6f63616c2e7467 are \
                        reserved for what servers take; draw another at random",
            }),
            Some(id) => Ok(id),
            None => Ok(random_lease_id()),
        }
    }
}

impl Uses<'_> {
    /// An adjustment to nothing is a mistake.
    pub(super) fn name_something(&self) -> Result<(), ServiceError> {
        match self.cost.is_some() || !self.amounts.is_empty() {
            true => Ok(()),
            false => spans::record_error(Err(ServiceError::Form {
                field: Field::Amounts,
                wrong: "say how much the lease is to have taken, by limit or by a cost",
            })),
        }
    }
}

impl Question<'_> {
    pub(super) fn belongs_to_no_member(&self) -> Result<(), ServiceError> {
        match self.member {
            None => Ok(()),
            Some(_) => spans::record_error(Err(ServiceError::Form {
                field: Field::Member,
                wrong: "only a debit, a peek and a forecast have it; the pool chooses here",
            })),
        }
    }

    /// The same; one that says no amount asks for nothing of rates and budgets.
    pub(super) fn or_nothing(mut self) -> Self {
        if self.amounts.is_empty() && self.cost.is_none() {
            self.cost = Some(Number::Units(0));
        }
        self
    }
}

impl ActivePolicy {
    #[inline]
    pub(super) fn in_units<'a>(
        &self,
        amounts: &[(&'a str, Number<'_>)],
    ) -> Result<InUnits<'a>, ServiceError> {
        let amounts = amounts.iter();
        let in_units = amounts.map(|(name, number)| Ok((*name, self.amount(name, *number)?)));
        spans::record_error(in_units.collect())
    }

    /// So much of the limits that are named, and `cost` of every rate that is not.
    #[inline]
    pub(super) fn request<'a>(
        &self,
        cost: Option<Number<'_>>,
        member: Option<&str>,
        in_units: &'a [(&'a str, u64)],
    ) -> Result<Request<'a>, ServiceError> {
        let request = Request::named(in_units);
        Ok(match cost {
            Some(cost) => request.cost(spans::record_error(self.cost(cost, member, in_units))?),
            None => request,
        })
    }
}
