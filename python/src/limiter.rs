//! What a set and a pool have in common: what is open, and how it was opened.

use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::fork;
use crate::plan::{Plan, Target};
use crate::request::Names;

/// A set or a pool, once its `__init__` was called.
#[pyclass(frozen, subclass, module = "tidegate._core")]
#[derive(Default)]
pub(crate) struct Limiter(OnceLock<Open>);

struct Open {
    opened: fork::Opened<Target>,
    plan: Box<dyn Plan>,
    names: Names,
    /// How long what is acquired is held at most, in seconds, unless an acquisition says it.
    ttl: Option<f64>,
}

impl Limiter {
    /// Opens it, as its `__init__` was told.
    ///
    /// # Errors
    /// That of the store, or of limits that make no sense; `RuntimeError` if it is open.
    pub(crate) fn begin(
        &self,
        py: Python<'_>,
        plan: impl Plan + 'static,
        names: Names,
    ) -> PyResult<()> {
        let opened = fork::Opened::new(plan.open(py)?);
        let open = Open {
            opened,
            ttl: plan.ttl(py),
            plan: Box::new(plan),
            names,
        };
        let again = |_| PyRuntimeError::new_err("__init__ was called before");
        self.0.set(open).map_err(again)
    }

    fn open(&self) -> PyResult<&Open> {
        let unopened = || PyRuntimeError::new_err("call super().__init__(...) first");
        self.0.get().ok_or_else(unopened)
    }

    pub(crate) fn names(&self) -> PyResult<&Names> {
        Ok(&self.open()?.names)
    }

    pub(crate) fn ttl(&self) -> Option<f64> {
        self.0.get()?.ttl
    }

    pub(crate) fn target(&self, py: Python<'_>) -> PyResult<Target> {
        let open = self.open()?;
        open.opened.get(|| open.plan.open(py))
    }

    /// How it was opened, once it is.
    pub(crate) fn plan(&self) -> Option<&dyn Plan> {
        self.0.get().map(|open| &*open.plan)
    }

    /// What the set (of a pool: `member`) was given as `config`.
    pub(crate) fn config(&self, py: Python<'_>, member: Option<&str>) -> Py<PyAny> {
        self.plan()
            .map_or_else(|| py.None(), |plan| plan.config(py, member))
    }
}
