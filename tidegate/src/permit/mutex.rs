//! A value that one holder at a time may touch, in order of arrival.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tidegate_store::sync;

use super::semaphore::{Permit, Semaphore};
use crate::pending::Pending;

/// A fair mutex, for threads and tasks alike. A holder that panics passes it on.
///
/// ```
/// let counter = tidegate::Mutex::new(0);
/// *counter.lock().wait() += 1; // or .await
/// assert_eq!(*counter.lock().wait(), 1);
/// ```
#[derive(Debug)]
pub struct Mutex<T> {
    turn: Semaphore,
    /// Where the value is while nobody holds it. Never contended: only who has the turn
    /// locks it.
    value: sync::Mutex<Option<T>>,
}

/// The value, while it is held; dropping it passes the turn on. Borrowed from a mutex, or
/// (if not said) owned, with a share of it.
#[must_use = "the mutex is unlocked when this is dropped"]
pub struct MutexGuard<T, M: Deref<Target = Mutex<T>> = Arc<Mutex<T>>> {
    /// Only [`Drop`] takes it out.
    value: Option<T>,
    mutex: M,
}

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self {
            turn: Semaphore::new(1),
            value: sync::Mutex::new(Some(value)),
        }
    }

    /// The value, awaited or waited for. Given up before its end, it gives back its place.
    pub fn lock(&self) -> Pending<impl Future<Output = MutexGuard<T, &Self>>> {
        Pending::new(async move {
            self.turn_comes().await;
            MutexGuard::of(self)
        })
    }

    /// As [`lock`](Self::lock), and the guard moves into other tasks.
    pub fn lock_owned(self: Arc<Self>) -> Pending<impl Future<Output = MutexGuard<T>>> {
        Pending::new(async move {
            self.turn_comes().await;
            MutexGuard::of(self)
        })
    }

    /// The value, if nobody holds it or waits for it.
    pub fn try_lock(&self) -> Option<MutexGuard<T, &Self>> {
        self.turn_is_free().then(|| MutexGuard::of(self))
    }

    /// As [`try_lock`](Self::try_lock), owned.
    pub fn try_lock_owned(self: Arc<Self>) -> Option<MutexGuard<T>> {
        self.turn_is_free().then(|| MutexGuard::of(self))
    }

    async fn turn_comes(&self) {
        let turn = self.turn.acquire().await;
        // It has its one permit, and nobody closes it.
        if let Ok(permit) = turn {
            permit.keep();
        }
    }

    fn turn_is_free(&self) -> bool {
        self.turn.try_acquire().map(Permit::keep).is_ok()
    }
}

impl<T, M: Deref<Target = Mutex<T>>> MutexGuard<T, M> {
    /// Its holder has the turn.
    fn of(mutex: M) -> Self {
        let value = mutex.value.lock().take();
        Self { value, mutex }
    }
}

impl<T, M: Deref<Target = Mutex<T>>> Drop for MutexGuard<T, M> {
    fn drop(&mut self) {
        *self.mutex.value.lock() = self.value.take();
        self.mutex.turn.release(1);
    }
}

impl<T, M: Deref<Target = Mutex<T>>> Deref for MutexGuard<T, M> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_ref().expect("only its drop takes it out")
    }
}

impl<T, M: Deref<Target = Mutex<T>>> DerefMut for MutexGuard<T, M> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("only its drop takes it out")
    }
}

impl<T: fmt::Debug, M: Deref<Target = Mutex<T>>> fmt::Debug for MutexGuard<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
