//! What a forked child does afresh.
//!
//! It has the memory of its parent, and of its threads only the one that forked. So the
//! random numbers of its lease ids would be its parent's, and the threads that drive
//! connections are not there: sets in a store that processes share are opened anew.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

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
