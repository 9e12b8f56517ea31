//! A lease taken in a job.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::attempt::Attempt;
use crate::lease::Lease;

/// A [`Lease`] taken in a job, which lives no longer than the attempt.
///
/// Settled, released or cancelled, it ends there and then, as any lease.
/// Dropped, it is given back when the job takes its next lease or is over,
/// whichever comes first: then it is known whether the job has failed, and a
/// failed one's leases count as [`Dropped`](crate::Outcome::Dropped) and give
/// back as each limit's `on_failure` says. To give slots back sooner, call
/// [`release`](Lease::release).
#[must_use = "a lease that is dropped at once protects nothing"]
pub struct Held {
    /// There until it is dropped.
    lease: Option<Box<Lease>>,
    attempt: Arc<Attempt>,
}

impl Held {
    pub(super) fn new(lease: Lease, attempt: &Arc<Attempt>) -> Self {
        Self {
            lease: Some(Box::new(lease)),
            attempt: Arc::clone(attempt),
        }
    }
}

impl Deref for Held {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        self.lease.as_deref().expect("there until it is dropped")
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Lease {
        self.lease
            .as_deref_mut()
            .expect("there until it is dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.attempt.let_go(*lease);
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
