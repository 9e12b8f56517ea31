//! A value that one holder at a time may touch, in order of arrival.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use tidegate_store::sync;

use super::semaphore::{Permit, Semaphore};

/// A fair mutex, for threads and tasks alike.
///
/// ```
/// let counter = tidegate::Mutex::new(0);
/// *counter.lock() += 1;
/// assert_eq!(*counter.lock(), 1);
/// ```
#[derive(Debug)]
pub struct Mutex<T> {
    turn: Semaphore,
    /// Never contended: only who has the turn locks it.
    value: sync::Mutex<T>,
}

/// The value, while it is held; dropping it passes the turn on.
#[must_use = "the mutex is unlocked when this is dropped"]
pub struct MutexGuard<'m, T> {
    // Declared first, dropped first: unlocked before the turn passes on.
    value: sync::MutexGuard<'m, T>,
    _turn: Permit<'m>,
}

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self {
            turn: Semaphore::new(1),
            value: sync::Mutex::new(value),
        }
    }

    /// The value; the thread waits for its turn.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.guard(self.turn.acquire())
    }

    /// The value, if the thread need not wait longer than this for its turn.
    pub fn lock_within(&self, longest_wait: Duration) -> Option<MutexGuard<'_, T>> {
        let turn = self.turn.acquire_within(longest_wait)?;
        Some(self.guard(turn))
    }

    /// The value; the task waits for its turn. Dropping the future gives the
    /// place back.
    pub async fn lock_async(&self) -> MutexGuard<'_, T> {
        let turn = self.turn.acquire_async().await;
        self.guard(turn)
    }

    /// The value, if nobody holds it or waits for it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.turn.try_acquire().map(|turn| self.guard(turn))
    }

    fn guard<'m>(&'m self, turn: Permit<'m>) -> MutexGuard<'m, T> {
        MutexGuard {
            value: self.value.lock(),
            _turn: turn,
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
