//! What a forked child does afresh.
//!
//! It has the memory of its parent, and of its threads only the one that forked. So the
//! random numbers of its lease ids would be its parent's, the threads that drive connections
//! and those that wait or hold something are not there: whatever its parent has opened is
//! opened anew, and what its parent holds stays its parent's.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use pyo3::prelude::*;

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// How many forks led to this process.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Called in a child, before anything else.
#[pyfunction]
pub(crate) fn _after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // An error would be that the system has no random numbers: then the next id panics.
    let _ = rand::rng().reseed();
}

/// What belongs to the process that made it. A forked child has none of it, and leaves it
/// where it is: to end it would wait for threads that are not there, or give back what its
/// parent holds.
pub(crate) struct Own<T> {
    value: Option<T>,
    generation: u64,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        let (value, generation) = (Some(value), generation());
        Self { value, generation }
    }

    /// `None` in a forked child.
    pub(crate) fn get(&self) -> Option<&T> {
        match self.generation == generation() {
            true => self.value.as_ref(),
            false => None,
        }
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.get().is_none() {
            let _ = ManuallyDrop::new(self.value.take());
        }
    }
}

/// What a process has opened; in a forked child, opened anew when it is asked for.
pub(crate) struct Opened<T>(ArcSwap<Own<T>>);

impl<T: Clone> Opened<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ArcSwap::from_pointee(Own::new(value)))
    }

    /// As this process has it, opened by `open` if its parent did. Of several threads that open it
    /// at once, all have what the first of them has.
    pub(crate) fn get(&self, open: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        let before = self.0.load();
        if let Some(value) = before.get() {
            return Ok(value.clone());
        }
        let value = open()?;
        let own = Arc::new(Own::new(value.clone()));
        let first = self.0.compare_and_swap(&before, own);
        Ok(first.get().cloned().unwrap_or(value))
    }
}
