//! Units that a server granted, to be spent here without asking.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_client::{Answer, Grant, GrantAnswer, LeaseRef};
use tokio::time::Instant;

use super::answer::remaining;
use super::words::{number, seconds};

/// What was granted, or what was refused: that is false.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct ServerGrant(GrantAnswer);

impl ServerGrant {
    pub(super) const fn new(answer: GrantAnswer) -> Self {
        Self(answer)
    }

    const fn grant(&self) -> Option<&Grant> {
        match &self.0 {
            GrantAnswer::Granted(grant) => Some(grant),
            GrantAnswer::Refused(_) => None,
        }
    }

    fn told(&self) -> &Answer {
        match &self.0 {
            GrantAnswer::Granted(grant) => grant.answer(),
            GrantAnswer::Refused(answer) => answer,
        }
    }

    /// Which lease it is.
    pub(super) fn lease(&self) -> Option<&LeaseRef> {
        self.grant().map(Grant::lease_ref)
    }
}

#[pymethods]
impl ServerGrant {
    const fn __bool__(&self) -> bool {
        self.grant().is_some()
    }

    #[getter]
    const fn admitted(&self) -> bool {
        self.grant().is_some()
    }

    #[getter]
    fn amounts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let amounts = PyDict::new(py);
        for (name, amount) in self
            .grant()
            .into_iter()
            .flat_map(|grant| grant.amounts().iter())
        {
            amounts.set_item(name, number(py, amount)?)?;
        }
        Ok(amounts)
    }

    #[getter]
    fn calls(&self) -> Vec<String> {
        self.grant()
            .map(|grant| grant.calls().to_vec())
            .unwrap_or_default()
    }

    #[getter]
    fn good_for(&self) -> f64 {
        let left = |grant: &Grant| grant.sure_until().saturating_duration_since(Instant::now());
        self.grant().map_or(0.0, |grant| left(grant).as_secs_f64())
    }

    #[getter]
    fn limit(&self) -> Option<&str> {
        self.told().binding.as_deref()
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        seconds(self.told())
    }

    #[getter]
    fn remaining<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        remaining(py, self.told())
    }

    fn __repr__(&self) -> String {
        match (&self.0, &self.told().binding) {
            (GrantAnswer::Granted(_), _) => "<ServerGrant: granted>".to_owned(),
            (_, Some(limit)) => format!("<ServerGrant: refused by {limit:?}>"),
            (_, None) => "<ServerGrant: refused>".to_owned(),
        }
    }
}
