//! How many of anything there may be at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits for what is bounded: connections, requests, streams. Cloning shares them.
///
/// Nobody queues for one: who is told at once can go elsewhere, and who queues holds memory.
#[derive(Clone, Debug)]
pub struct Permits(Arc<Semaphore>);

impl Permits {
    /// So many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(most)))
    }

    /// One of them, if any is left; given back when it is dropped.
    #[must_use]
    pub fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }
}
