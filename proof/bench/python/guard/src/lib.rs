//! The least that `with limits.acquire()` can cost: a guard that counts up and down, and knows no limit, no store
//! and no time.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// How many guards there are.
#[pyclass(frozen)]
#[derive(Default)]
struct Counter {
    held: AtomicU64,
}

#[pymethods]
impl Counter {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn acquire(counter: Py<Self>) -> Guard {
        counter.get().held.fetch_add(1, Ordering::SeqCst);
        Guard { counter }
    }
}

/// Counts down when its block ends.
#[pyclass(frozen)]
struct Guard {
    counter: Py<Counter>,
}

#[pymethods]
impl Guard {
    fn __enter__(guard: Py<Self>) -> Py<Self> {
        guard
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> bool {
        self.counter.get().held.fetch_sub(1, Ordering::SeqCst);
        false
    }
}

#[pymodule(gil_used = false)]
mod guard {
    #[pymodule_export]
    use super::{Counter, Guard};
}
