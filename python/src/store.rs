//! Stores by their URL, opened once in a process: sets share connections and memory.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate_url::Opened;

use crate::error::exception;
use crate::named::Named;

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
        opened.map_err(|error| exception(py, "StoreUnavailable", (error.to_string(),)))
    })
}
