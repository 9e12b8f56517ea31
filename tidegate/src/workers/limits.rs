//! The limits as a job sees them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::held::Held;
use crate::admission::Admission;
use crate::decision::Decision;
use crate::error::DecisionError;
use crate::key::Key;
use crate::pending::Pending;
use crate::pool::LimitPool;
use crate::request::Request;

/// A worker's limits during one attempt at a job: whatever the workers were
/// given, as a pool whose turns begin at the worker's own offset. What is
/// taken here lives no longer than the attempt: see [`Held`].
#[derive(Clone, Debug)]
pub struct Limits {
    pool: LimitPool,
    attempt: Arc<Attempt>,
}

impl Limits {
    pub(super) const fn new(pool: LimitPool, attempt: Arc<Attempt>) -> Self {
        Self { pool, attempt }
    }

    /// As [`LimitPool::acquire`].
    ///
    /// # Errors
    /// As [`LimitPool::acquire`].
    pub fn acquire<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission<Held>, DecisionError>> + Send> {
        let (key, request) = (key.into(), request.into());
        Pending::new(async move {
            self.attempt.goes_on();
            let got = self.pool.acquire(key, request).await?;
            Ok(self.held(got))
        })
    }

    /// As [`LimitPool::try_acquire`].
    ///
    /// # Errors
    /// As [`LimitPool::try_acquire`].
    pub fn try_acquire<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission<Held>, DecisionError>> + Send> {
        self.acquire(key, request.into().within(Duration::ZERO))
    }

    /// As [`LimitPool::check`].
    ///
    /// # Errors
    /// As [`LimitPool::check`].
    pub fn check<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, DecisionError>> + Send> {
        self.pool.check(key, request)
    }

    /// The pool itself, for everything else. What is taken from it is not the
    /// attempt's.
    #[must_use]
    pub const fn pool(&self) -> &LimitPool {
        &self.pool
    }

    pub(super) fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    fn held(&self, admission: Admission) -> Admission<Held> {
        admission.map(|lease| Held::new(lease, &self.attempt))
    }
}
