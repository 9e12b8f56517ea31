//! What has a name in a store is opened once in a process: whoever says the same shares it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::blocking;
use crate::error::invalid;
use crate::fork;

/// So many at most: they stay for as long as the process.
const MOST: usize = 10_000;

/// Of which fork's process, the store's URL, the name.
type Id = (u64, String, String);

/// One thread opens it; whoever waits for that does so without the interpreter's lock.
type Place<T> = Arc<tidegate::Mutex<Option<T>>>;

/// What was opened, by the URL of its store and its name.
pub(crate) struct Named<T>(Mutex<Option<HashMap<Id, Place<T>>>>);

impl<T: Clone + Send> Named<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// What is `name` at `url`, opened by `open` if it is not. A forked child opens its own.
    ///
    /// # Errors
    /// Those of `open`; `InvalidRequest` if too many are open.
    pub(crate) fn get(
        &self,
        py: Python<'_>,
        (url, name): (&str, &str),
        open: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let id = (fork::generation(), url.to_owned(), name.to_owned());
        let place = self.place(id).ok_or_else(|| {
            let words = format!("{MOST} names are open; use one name, and key= for each thing");
            invalid(py, words)
        })?;
        let mut opened = blocking::wait(py, place.lock())?;
        match &*opened {
            Some(known) => Ok(known.clone()),
            None => Ok(opened.insert(open()?).clone()),
        }
    }

    /// `None`: too many are open.
    fn place(&self, id: Id) -> Option<Place<T>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let places = places.get_or_insert_default();
        if places.len() >= MOST && !places.contains_key(&id) {
            // Those that could not be opened.
            places.retain(|_, place| place.try_lock().is_none_or(|opened| opened.is_some()));
        }
        let has_room = places.len() < MOST || places.contains_key(&id);
        has_room.then(|| {
            Arc::clone(
                places
                    .entry(id)
                    .or_insert_with(|| Arc::new(tidegate::Mutex::new(None))),
            )
        })
    }
}
