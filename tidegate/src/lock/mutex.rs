//! One holder at a time.

use std::future::Future;
use std::time::Duration;

use super::permit::LeasedPermit;
use super::semaphore::LeasedSemaphore;
use crate::error::LockError;
use crate::key::Key;
use crate::pending::Pending;

/// A [`LeasedSemaphore`] of one slot for each key: a lock by name. What it guards is
/// elsewhere, and is to be told the [fence](LeasedPermit::fence).
///
/// ```
/// use tidegate::lock::LeasedMutex;
///
/// let accounts = LeasedMutex::builder("account").build()?;
/// let held = accounts.of("alice").lock().wait()?;
/// assert!(accounts.of("alice").try_lock().wait()?.is_none());
/// assert!(accounts.of("bob").try_lock().wait()?.is_some());
/// held.release().wait()?;
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LeasedMutex(pub(super) LeasedSemaphore);

impl LeasedMutex {
    /// The one for `key`; `all` if it is not said.
    #[must_use]
    pub fn of<'k>(&self, key: impl Into<Key<'k>>) -> Self {
        Self(self.0.of(key))
    }

    /// The semaphore that it is, for every other verb.
    #[must_use]
    pub const fn semaphore(&self) -> &LeasedSemaphore {
        &self.0
    }

    /// Takes it, if it is free and nobody waits.
    ///
    /// # Errors
    /// As [`LeasedSemaphore::try_acquire`].
    pub fn try_lock(
        &self,
    ) -> Pending<impl Future<Output = Result<Option<LeasedPermit>, LockError>> + Send> {
        self.0.try_acquire()
    }

    /// Takes it, waited for at most [30 seconds](crate::DEFAULT_WAIT); for longer, see
    /// [`lock_within`](Self::lock_within). Given up before its end, it gives back its place
    /// and what it was given.
    ///
    /// # Errors
    /// As [`LeasedSemaphore::acquire`].
    pub fn lock(&self) -> Pending<impl Future<Output = Result<LeasedPermit, LockError>> + Send> {
        self.0.acquire()
    }

    /// Takes it, if it need not be waited for longer than this; [`Duration::MAX`] waits for
    /// ever. `None`: not in that time.
    ///
    /// # Errors
    /// As [`LeasedSemaphore::acquire_within`].
    pub fn lock_within(
        &self,
        longest_wait: Duration,
    ) -> Pending<impl Future<Output = Result<Option<LeasedPermit>, LockError>> + Send> {
        self.0.acquire_within(longest_wait)
    }
}
