//! A lease that nobody was told of is given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::active_policy::{ActivePolicy, GrantedLease};
use tidegate::{Key, LeaseId};

/// Cancels a lease when it is dropped, unless it was delivered.
///
/// Between the grant and the client lies an answer that may never be sent: the
/// connection may be gone by then. What happens to the bytes once they are written,
/// nobody can know: such a lease comes back at its expiry.
///
/// Not for a request with an idempotency key: whoever sends one means to ask again, and
/// is to find the lease then, not the end of it.
#[derive(Debug)]
pub struct Undelivered {
    active: Arc<ActivePolicy>,
    key: Vec<u8>,
    id: LeaseId,
    delivered: AtomicBool,
}

impl Undelivered {
    /// Watches over `granted`.
    #[must_use]
    pub fn new(active: &Arc<ActivePolicy>, key: Key<'_>, granted: &GrantedLease) -> Self {
        Self::of_lease(active, key, granted.id)
    }

    /// Watches over the lease of this id.
    pub(super) fn of_lease(active: &Arc<ActivePolicy>, key: Key<'_>, id: LeaseId) -> Self {
        Self {
            active: Arc::clone(active),
            key: key.bytes().to_vec(),
            id,
            delivered: AtomicBool::new(false),
        }
    }

    /// The answer is taken to be written.
    pub fn deliver(&self) {
        self.delivered.store(true, Ordering::Relaxed);
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        if !self.delivered.load(Ordering::Relaxed) {
            self.active.cancel_unseen(Key::from(&self.key), self.id);
        }
    }
}
