//! A limit of a set that goes by an estimator.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Amount;

use super::estimator::Estimator;
use super::permit::AdaptivePermit;
use super::sample::Sample;
use super::shared::Shared;
use crate::admission::Admission;
use crate::error::{BuildError, DecisionError};
use crate::key::Key;
use crate::limit::LimitError;
use crate::pending::Pending;
use crate::request::Request;
use crate::set::LimitSet;

/// A concurrency limit of a set whose capacity an [`Estimator`] says. Cloning shares it.
///
/// It is of one upstream: the capacity holds for every key of the set that has no limit of
/// its own, each of which may have as much in flight. So give each upstream a set, and its
/// keys the meaning of accounts or regions that are alike. Limits beside it in the set are
/// taken in the same step.
///
/// Several processes share one by sets of one name on one store
/// ([`LimitSetBuilder::store`](crate::LimitSetBuilder::store)). Each estimates by itself,
/// and what it sends bounds what all of them have in flight. A process that holds nothing,
/// and is refused because the others hold more than its limit, takes over what they hold
/// for its limit: it has no samples of its own to learn from.
#[derive(Clone, Debug)]
pub struct AdaptiveLimit(Arc<Shared>);

impl AdaptiveLimit {
    /// The limit called `limit` of `set` goes by `estimator` from now on.
    ///
    /// # Errors
    /// [`BuildError::UnknownLimit`]; [`BuildError::NotAdaptive`]: say `.adaptive()` where the
    /// limit is made; [`BuildError::Limit`]: it is no [`Limit::concurrency`](crate::Limit::concurrency).
    pub fn new(set: LimitSet, limit: &str, estimator: Estimator) -> Result<Self, BuildError> {
        let found = set.limits();
        let found = found.iter().find(|one| one.name() == limit);
        if found.is_some_and(|one| !one.is_concurrency()) {
            return Err(BuildError::Limit {
                limit: limit.to_owned(),
                source: LimitError::NoSetting {
                    setting: "estimator",
                    kind: "what is charged and not held",
                },
            });
        }
        set.set_capacity(limit, estimator.limit())?;
        let shared = Shared::new(set, limit.to_owned(), estimator);
        Ok(Self(Arc::new(shared)))
    }

    /// Takes what `request` asks for, waiting as [`LimitSet::acquire`] does; what is granted
    /// is held by a permit, which says how the work went.
    ///
    /// # Errors
    /// As [`LimitSet::acquire`].
    pub fn acquire<'k, 'r>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'r>>,
    ) -> Pending<impl Future<Output = Result<Admission<AdaptivePermit>, DecisionError>> + Send>
    {
        let (key, request) = (key.into(), request.into().standings());
        Pending::new(async move {
            let admission = self.0.set.acquire(key, request).await?;
            if let Some(decision) = admission.refusal() {
                self.0.refused(decision);
            }
            Ok(admission.map(|lease| AdaptivePermit::new(lease, Arc::clone(&self.0))))
        })
    }

    /// As [`acquire`](Self::acquire), without waiting.
    ///
    /// # Errors
    /// As [`LimitSet::try_acquire`].
    pub fn try_acquire<'k, 'r>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'r>>,
    ) -> Pending<impl Future<Output = Result<Admission<AdaptivePermit>, DecisionError>> + Send>
    {
        self.acquire(key, request.into().within(Duration::ZERO))
    }

    /// Takes in a sample of work that no permit was for, such as of leases that are
    /// settled by their id. Answers the limit after it.
    pub fn observe(&self, sample: &Sample) -> Amount {
        self.0.observe(sample)
    }

    /// The limit now.
    #[must_use]
    pub fn limit(&self) -> Amount {
        self.0.now()
    }

    /// The set.
    #[must_use]
    pub fn set(&self) -> &LimitSet {
        &self.0.set
    }
}
