//! Slots of this process: a semaphore and a mutex, fair, for threads and tasks.
//!
//! One compare-and-swap takes a permit and one gives it back while nobody
//! waits; whoever waits is served in order. Permits have no expiry, no id and
//! no key: where a holder may vanish, take a [`Limit::concurrency`] instead.
//!
//! [`Limit::concurrency`]: crate::Limit::concurrency

mod mutex;
mod semaphore;

pub use mutex::{Mutex, MutexGuard};
pub use semaphore::{AcquireError, Permit, Semaphore};
