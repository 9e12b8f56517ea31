//! What decides for a policy: its limits, or its pool. One shape for both. What a pool needs
//! stands on the heap: requests to plain limits, of which there are more, are not moved with it.

use std::time::Duration;

use tidegate_store::StoreError;

use super::error::ServiceError;
use super::field::Field;
use super::finish::{Finish, Finished, Renewed, Report, adjust, finish, renew};
use super::member_forecast::MemberForecast;
use super::pooled::Pooled;
use tidegate::internal::SetInternals;
use tidegate::{
    Admission, Decision, DecisionError, Grant, Key, LeaseError, LeaseId, LimitSet, Request,
};

/// A policy's limits, or its pool.
pub(super) enum Limiter {
    Set(LimitSet),
    Pool(Pooled),
}

impl Limiter {
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` moves what it is given once more"
    )]
    pub(super) fn check(
        &self,
        key: Key<'_>,
        request: Request<'_>,
    ) -> impl Future<Output = Result<Decision, DecisionError>> + Send {
        async move {
            match self {
                Self::Set(set) => set.check(key, request).await,
                Self::Pool(pooled) => Box::pin(pooled.pool().check(key, request)).await,
            }
        }
    }

    /// Each by itself, in their order: by limits all at one instant, by one command to
    /// the store; a pool asks its members for one after the other.
    pub(super) async fn check_each(
        &self,
        items: &[(Key<'_>, Request<'_>)],
    ) -> Vec<Result<Decision, DecisionError>> {
        match self {
            Self::Set(set) => match set.check_many(items.iter().copied()).await {
                Ok(answers) => answers,
                Err(error) => items.iter().map(|_| Err(error.clone())).collect(),
            },
            Self::Pool(pooled) => {
                let mut answers = Vec::with_capacity(items.len());
                let mut away = None;
                for &(key, request) in items {
                    let answer = match &away {
                        None => Box::pin(pooled.pool().check(key, request)).await,
                        Some(error) => Err(DecisionError::clone(error)),
                    };
                    // It is waited for once, and not for each.
                    if let Err(error @ DecisionError::Store(StoreError::Unavailable(_))) = &answer {
                        away = Some(error.clone());
                    }
                    answers.push(answer);
                }
                answers
            }
        }
    }

    /// What was used was used at one place: a pool is told which.
    pub(super) async fn debit(
        &self,
        member: Option<&str>,
        key: Key<'_>,
        request: Request<'_>,
    ) -> Result<Decision, ServiceError> {
        match self.one(member)? {
            Some(set) => Ok(set.debit(key, request).await?),
            None => Err(self.unsaid()),
        }
    }

    pub(super) async fn peek(
        &self,
        member: Option<&str>,
        key: Key<'_>,
        request: Request<'_>,
    ) -> Result<Decision, ServiceError> {
        match (self.one(member)?, self) {
            (Some(set), _) | (None, Self::Set(set)) => Ok(set.peek(key, request).await?),
            (None, Self::Pool(pooled)) => Ok(Box::pin(pooled.pool().peek(key, request)).await?),
        }
    }

    pub(super) async fn forecast(
        &self,
        member: Option<&str>,
        key: Key<'_>,
        request: Request<'_>,
    ) -> Result<Vec<MemberForecast>, ServiceError> {
        match (self.one(member)?, self) {
            (Some(set), _) | (None, Self::Set(set)) => Ok(vec![MemberForecast {
                member: member.map(str::to_owned),
                limits: set.forecast(key, request).await?,
            }]),
            (None, Self::Pool(pooled)) => Ok(Box::pin(pooled.forecasts(key, request)).await?),
        }
    }

    pub(super) async fn acquire(
        &self,
        key: Key<'_>,
        request: Request<'_>,
    ) -> Result<Admission, DecisionError> {
        match self {
            Self::Set(set) => set.acquire(key, request).await,
            Self::Pool(pooled) => Box::pin(pooled.pool().acquire(key, request)).await,
        }
    }

    /// Units to be spent elsewhere.
    ///
    /// # Errors
    /// A pool gives none: what is left of a grant would be for one member alone.
    pub(super) async fn grant(
        &self,
        key: Key<'_>,
        id: LeaseId,
        (wished, least): (Request<'_>, Request<'_>),
        hold: Duration,
    ) -> Result<Admission<Grant>, ServiceError> {
        match self {
            Self::Set(set) => Ok(set.grant(key, id, wished, least, hold).await?),
            Self::Pool(_) => Err(ServiceError::Form {
                field: Field::Policy,
                wrong: "a pool gives no grants, which would be of one member: acquire from it, or \
                        name a policy that is no pool",
            }),
        }
    }

    pub(super) async fn finish(
        &self,
        key: Key<'_>,
        id: LeaseId,
        how: Finish<'_>,
        report: &Report,
    ) -> Result<Finished, LeaseError> {
        match self {
            Self::Set(set) => Ok(Finished {
                settlement: finish(set, key, id, how).await?,
                member: None,
                cooling_until: None,
            }),
            Self::Pool(pooled) => Box::pin(pooled.finish(key, id, how, report)).await,
        }
    }

    pub(super) async fn renew(
        &self,
        key: Key<'_>,
        id: LeaseId,
        ttl: Option<Duration>,
    ) -> Result<Renewed, LeaseError> {
        match self {
            Self::Set(set) => renew(set, key, id, ttl).await,
            Self::Pool(pooled) => Box::pin(pooled.renew(key, id, ttl)).await,
        }
    }

    pub(super) async fn adjust(
        &self,
        key: Key<'_>,
        id: LeaseId,
        to: Request<'_>,
        overdraw: bool,
    ) -> Result<Decision, LeaseError> {
        match self {
            Self::Set(set) => adjust(set, key, id, to, overdraw).await,
            Self::Pool(pooled) => Box::pin(pooled.adjust(key, id, to, overdraw)).await,
        }
    }

    pub(super) async fn reset(&self, key: Key<'_>) -> Result<(), DecisionError> {
        for set in self.sets() {
            set.reset(key).await?;
        }
        Ok(())
    }

    /// Gives back a lease that nobody holds: nobody waits for the answer.
    pub(super) fn cancel_unseen(&self, key: Key<'_>, id: LeaseId) {
        match self {
            Self::Set(set) => set.cancel_unseen(key, id),
            Self::Pool(pooled) => pooled.cancel_unseen(key, id),
        }
    }

    /// The limit sets behind it; at least one.
    pub(super) fn sets(&self) -> Box<dyn Iterator<Item = &LimitSet> + Send + '_> {
        match self {
            Self::Set(set) => Box::new(std::iter::once(set)),
            Self::Pool(pooled) => Box::new(pooled.pool().members().iter().map(|m| m.set())),
        }
    }

    /// Its set; of a pool, the first member's.
    pub(super) fn set(&self) -> &LimitSet {
        match self {
            Self::Set(set) => set,
            Self::Pool(pooled) => pooled.pool().members()[0].set(),
        }
    }

    /// Its set, unless it is a pool.
    pub(super) const fn plain(&self) -> Option<&LimitSet> {
        match self {
            Self::Set(set) => Some(set),
            Self::Pool(_) => None,
        }
    }

    pub(super) const fn pool(&self) -> Option<&Pooled> {
        match self {
            Self::Set(_) => None,
            Self::Pool(pooled) => Some(pooled),
        }
    }

    pub(super) fn waiting(&self) -> u64 {
        match self {
            Self::Set(set) => set.statistics().waiting,
            Self::Pool(pooled) => pooled.pool().statistics().waiting,
        }
    }

    /// The one set that is meant; nothing if a pool is, as a whole.
    fn one(&self, member: Option<&str>) -> Result<Option<&LimitSet>, ServiceError> {
        match (self, member) {
            (Self::Set(set), None) => Ok(Some(set)),
            (Self::Set(_), Some(_)) => Err(ServiceError::NoPool),
            (Self::Pool(pooled), Some(name)) => Ok(Some(pooled.pool().try_member(name)?.set())),
            (Self::Pool(_), None) => Ok(None),
        }
    }

    fn unsaid(&self) -> ServiceError {
        let names = self
            .pool()
            .into_iter()
            .flat_map(|pooled| pooled.pool().members());
        let names = names.map(|member| format!("`{}`", member.name()));
        ServiceError::MemberNeeded(names.collect::<Vec<_>>().join(", "))
    }
}
