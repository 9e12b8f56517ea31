//! Stores by their URL, opened once in a process: sets share connections and memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tidegate_url::Opened;

use crate::error::exception;
use crate::fork;

static STORES: Mutex<Option<HashMap<(u64, String), Opened>>> = Mutex::new(None);

/// The store that `url` names. A forked child opens its own: threads that drive
/// connections stay with the parent.
///
/// # Errors
/// `StoreUnavailable`, `ValueError`; no message holds a password.
pub(crate) fn open(py: Python<'_>, url: &str) -> PyResult<Opened> {
    let id = (fork::generation(), url.to_owned());
    let known = || {
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.get_or_insert_default().get(&id).cloned()
    };
    if let Some(opened) = known() {
        return Ok(opened);
    }
    tidegate_url::check(url)
        .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    let opened = py.detach(|| tidegate_url::open(url));
    let opened = opened.map_err(|error| exception(py, "StoreUnavailable", (error.to_string(),)))?;
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    let stores = stores.get_or_insert_default();
    Ok(stores.entry(id).or_insert(opened).clone())
}
