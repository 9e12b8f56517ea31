//! What the verbs of sets and pools lead to, and how it is opened.

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use tidegate::{Admission, DecisionError, LimitPool, LimitSet, Request, Statistics};

/// How a set or a pool is opened; in a forked child once more.
pub(crate) trait Plan: Send + Sync {
    /// # Errors
    /// That of the store, or of limits that make no sense.
    fn open(&self, py: Python<'_>) -> PyResult<Target>;

    /// How long what is acquired is held at most, in seconds, unless an acquisition says it.
    fn ttl(&self, py: Python<'_>) -> Option<f64>;

    /// What the set (of a pool: `member`) was given as `config`.
    fn config(&self, py: Python<'_>, member: Option<&str>) -> Py<PyAny>;

    /// Shows the collector the objects that it keeps.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;

    /// Lets go of them.
    fn clear(&self);
}

/// Where verbs lead.
#[derive(Clone)]
pub(crate) enum Target {
    Set(LimitSet),
    Pool(LimitPool),
}

impl Target {
    /// Takes a lease for `key`, and waits for it if it is to.
    pub(crate) async fn ask(
        &self,
        key: &str,
        request: Request<'_>,
        waits: bool,
    ) -> Result<Admission, DecisionError> {
        let key = key.as_bytes();
        match (self, waits) {
            (Self::Set(set), true) => set.acquire(key, request).await,
            (Self::Set(set), false) => set.try_acquire(key, request).await,
            (Self::Pool(pool), true) => pool.acquire(key, request).await,
            (Self::Pool(pool), false) => pool.try_acquire(key, request).await,
        }
    }

    /// What was counted, and how often each limit has refused.
    pub(crate) fn counted(&self) -> (Statistics, Vec<(String, u64)>) {
        match self {
            Self::Set(set) => (set.statistics(), set.refusals()),
            Self::Pool(pool) => (pool.statistics(), pool.refusals()),
        }
    }
}
