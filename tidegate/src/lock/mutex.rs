//! One holder at a time.

use std::future::Future;
use std::time::Duration;

use super::permit::Permit;
use super::semaphore::Semaphore;
use crate::error::Error;
use crate::key::Key;
use crate::pending::Pending;

/// A [`Semaphore`] of one slot for each key: a lock by name. What it guards is
/// elsewhere, and is to be told the [fence](Permit::fence).
///
/// ```
/// use tidegate::lock::Mutex;
///
/// let accounts = Mutex::builder("account").build()?;
/// let held = accounts.of("alice").lock().wait()?;
/// assert!(accounts.of("alice").try_lock().wait()?.is_none());
/// assert!(accounts.of("bob").try_lock().wait()?.is_some());
/// held.release().wait()?;
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(pub(super) Semaphore);

impl Mutex {
    /// The one for `key`; `all` if it is not said.
    #[must_use]
    pub fn of<'k>(&self, key: impl Into<Key<'k>>) -> Self {
        Self(self.0.of(key))
    }

    /// The semaphore that it is, for every other verb.
    #[must_use]
    pub const fn semaphore(&self) -> &Semaphore {
        &self.0
    }

    /// Takes it, if it is free and nobody waits.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire`].
    pub fn try_lock(&self) -> Pending<impl Future<Output = Result<Option<Permit>, Error>> + Send> {
        self.0.try_acquire()
    }

    /// Takes it, waited for as long as it takes. Given up before its end, it gives back
    /// its place and what it was given.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    pub fn lock(&self) -> Pending<impl Future<Output = Result<Permit, Error>> + Send> {
        self.0.acquire()
    }

    /// Takes it, if it need not be waited for longer than this.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_within`].
    pub fn lock_within(
        &self,
        longest_wait: Duration,
    ) -> Pending<impl Future<Output = Result<Option<Permit>, Error>> + Send> {
        self.0.acquire_within(longest_wait)
    }
}
