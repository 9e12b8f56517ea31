//! Stores by their URL, opened once in a process: sets share connections and memory.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate_url::Opened;

use crate::error::exception;
use crate::named::Named;
#[cfg(target_os = "linux")]
use crate::patient::Patient;

static STORES: Named<Opened> = Named::new();

/// The store that `url` names.
///
/// # Errors
/// `StoreUnavailable`, `ValueError`; no message holds a password.
pub(crate) fn open(py: Python<'_>, url: &str) -> PyResult<Opened> {
    if url.starts_with("http://") || url.starts_with("https://") {
        let words = "a server is no store: it has limits of its own, and tidegate.Client asks it";
        return Err(PyValueError::new_err(words));
    }
    STORES.get(py, (url, ""), || {
        tidegate_url::check(url).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let opened = py.detach(|| tidegate_url::open(url));
        let opened =
            opened.map_err(|error| exception(py, "StoreUnavailable", (error.to_string(),)));
        Ok(around(url, opened?))
    })
}

/// A store of which a command may wait for another process on the thread that says it, behind one
/// of which none does.
#[cfg(target_os = "linux")]
fn around(url: &str, mut opened: Opened) -> Opened {
    if url.starts_with("shm:") {
        opened.store = std::sync::Arc::new(Patient(opened.store));
    }
    opened
}

#[cfg(not(target_os = "linux"))]
fn around(_url: &str, opened: Opened) -> Opened {
    opened
}
