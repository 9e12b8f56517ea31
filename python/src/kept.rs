//! An object of Python's that this side keeps, and lets go when it is garbage.

use std::sync::{Mutex, PoisonError};

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// Kept by one object of Python's alone, which lets the collector see it.
#[derive(Debug)]
pub(crate) struct Kept(Mutex<Option<Py<PyAny>>>);

impl Kept {
    pub(crate) const fn new(object: Py<PyAny>) -> Self {
        Self(Mutex::new(Some(object)))
    }

    /// The object, unless it was let go.
    pub(crate) fn get(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().map(|object| object.clone_ref(py))
    }

    /// Shows it to the collector. Who has the lock has stopped amid `get`, and is no garbage.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.try_lock() {
            Ok(kept) => visit.call(&*kept),
            Err(_) => Ok(()),
        }
    }

    pub(crate) fn clear(&self) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(kept);
    }
}
