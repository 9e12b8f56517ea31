//! What a forked child does afresh.
//!
//! It has the memory of its parent, and of its threads only the one that forked. So the
//! random numbers of its lease ids would be its parent's, and the threads that drive
//! connections are not there: sets in a store that processes share are opened anew.

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

/// Leaves what a parent opened where it is: to end it would wait for threads that are not in
/// this process.
pub(crate) fn leave<T>(opened: T) {
    let _ = ManuallyDrop::new(opened);
}

/// What a process has opened; in a forked child, opened anew when it is asked for.
pub(crate) struct Opened<T>(ArcSwap<(T, u64)>);

impl<T: Clone> Opened<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ArcSwap::from_pointee((value, generation())))
    }

    /// As this process has it, opened by `open` if its parent did; a copy of the parent's,
    /// where that `is_of_its_process`.
    pub(crate) fn get(
        &self,
        is_of_its_process: bool,
        open: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let opened = self.0.load();
        if opened.1 == generation() || is_of_its_process {
            return Ok(opened.0.clone());
        }
        drop(opened);
        let value = open()?;
        leave(self.0.swap(Arc::new((value.clone(), generation()))));
        Ok(value)
    }
}
