//! Requests of a key that wait at the store, counted.

use std::sync::Arc;

use tidegate_store::sync::atomic::{AtomicU64, Ordering};

/// How many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queued(Arc<AtomicU64>);

/// One of them, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place(Queued);

impl Queued {
    /// One more.
    pub(crate) fn enter(&self) -> Place {
        self.0.fetch_add(1, Ordering::AcqRel);
        Place(self.clone())
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
