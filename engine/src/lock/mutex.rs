//! One holder at a time.

use std::time::Duration;

use super::builder::Builder;
use super::permit::Permit;
use super::semaphore::Semaphore;
use crate::error::Error;
use crate::key::Key;

/// A [`Semaphore`] of one slot for each key: a lock by name. What it guards is
/// elsewhere, and is to be told the [fence](Permit::fence).
///
/// ```
/// use tidegate::lock::Mutex;
///
/// let accounts = Mutex::builder("account").build()?;
/// let held = accounts.of("alice").lock()?;
/// assert!(accounts.of("alice").try_lock()?.is_none());
/// assert!(accounts.of("bob").try_lock()?.is_some());
/// held.release()?;
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(pub(super) Semaphore);

impl Mutex {
    /// Begins one called `name` by its store.
    pub fn builder(name: impl Into<String>) -> Builder<Self> {
        Builder::new(name.into(), 1)
    }

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
    pub fn try_lock(&self) -> Result<Option<Permit>, Error> {
        self.0.try_acquire()
    }

    /// Takes it; the thread waits for it.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    pub fn lock(&self) -> Result<Permit, Error> {
        self.0.acquire()
    }

    /// Takes it, if the thread need not wait longer than this.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_within`].
    pub fn lock_within(&self, longest_wait: Duration) -> Result<Option<Permit>, Error> {
        self.0.acquire_within(longest_wait)
    }

    /// As [`try_lock`](Self::try_lock), on any async runtime.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire`].
    pub async fn try_lock_async(&self) -> Result<Option<Permit>, Error> {
        self.0.try_acquire_async().await
    }

    /// As [`lock`](Self::lock), on any async runtime. Dropping the future gives
    /// back its place and what it was given.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_async`].
    pub async fn lock_async(&self) -> Result<Permit, Error> {
        self.0.acquire_async().await
    }

    /// As [`lock_within`](Self::lock_within), on any async runtime.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_async`].
    pub async fn lock_within_async(&self, longest_wait: Duration) -> Result<Option<Permit>, Error> {
        self.0.acquire_within_async(longest_wait).await
    }
}
