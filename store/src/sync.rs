//! The locks and atomics that stores and engine use, in one place, so that
//! `--cfg shuttle` swaps them for a model checker's without touching a caller.

#[cfg(not(shuttle))]
pub use parking_lot::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
pub use std::sync::atomic;

#[cfg(shuttle)]
pub use shuttle::sync::{MutexGuard, atomic};

/// A mutex without poisoning, as the rest of the code expects it.
#[cfg(shuttle)]
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(shuttle)]
impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no test poisons a lock")
    }

    /// The lock, if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
