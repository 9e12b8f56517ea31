//! A change that the store is told of.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::ServiceError;
use tidegate_store::block_on;

/// What a change comes to, once the store keeps it and it is in force here. The store is
/// asked already, and what it is asked goes on if this is dropped; only if somebody else has
/// changed the same meanwhile, it is asked again while this is awaited. Await it, or
/// [`wait`](Self::wait) for it on a thread.
#[must_use = "whether the store keeps it is not known before"]
pub struct Pending<T>(Pin<Box<dyn Future<Output = Result<T, ServiceError>> + Send>>);

impl<T: Send + 'static> Pending<T> {
    pub(super) fn new(
        change: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
    ) -> Self {
        Self(Box::pin(change))
    }

    /// It has come to this, or was refused.
    pub(super) fn done(what: Result<T, ServiceError>) -> Self {
        Self::new(ready(what))
    }

    /// Waits for it. On a thread of an async runtime, await it instead: others wait for
    /// that thread.
    ///
    /// # Errors
    /// Those of the change.
    pub fn wait(self) -> Result<T, ServiceError> {
        block_on(self.0)
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, ServiceError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}
