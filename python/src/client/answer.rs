//! What a server says of a check.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_client::Error;

use super::words::{number, raised, seconds};

pub(super) fn answer(
    py: Python<'_>,
    told: Result<tidegate_client::Answer, Error>,
) -> PyResult<Py<PyAny>> {
    let told = told.map_err(|error| raised(py, &error))?;
    Ok(Py::new(py, Answer(told))?.into_any())
}

pub(super) fn remaining<'py>(
    py: Python<'py>,
    answer: &tidegate_client::Answer,
) -> PyResult<Bound<'py, PyDict>> {
    let remaining = PyDict::new(py);
    for (name, standing) in answer.limits.iter() {
        remaining.set_item(name, number(py, &standing.remaining)?)?;
    }
    Ok(remaining)
}

/// May it start? A refusal is false.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct Answer(tidegate_client::Answer);

#[pymethods]
impl Answer {
    const fn __bool__(&self) -> bool {
        self.0.admitted
    }

    #[getter]
    const fn admitted(&self) -> bool {
        self.0.admitted
    }

    #[getter]
    fn limit(&self) -> Option<&str> {
        self.0.binding.as_deref()
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        seconds(&self.0)
    }

    #[getter]
    const fn degraded(&self) -> bool {
        self.0.degraded
    }

    #[getter]
    const fn shadowed(&self) -> bool {
        self.0.shadowed
    }

    #[getter]
    fn level(&self) -> Option<&str> {
        self.0.level.as_deref()
    }

    #[getter]
    fn member(&self) -> Option<&str> {
        self.0.member.as_deref()
    }

    #[getter]
    fn entity(&self) -> Option<&str> {
        self.0.entity.as_deref()
    }

    #[getter]
    fn remaining<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        remaining(py, &self.0)
    }

    #[getter]
    fn debt<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let debt = PyDict::new(py);
        for (name, standing) in self.0.limits.iter() {
            debt.set_item(name, number(py, &standing.debt)?)?;
        }
        Ok(debt)
    }

    fn __repr__(&self) -> String {
        match (self.0.admitted, &self.0.binding) {
            (true, _) => "<Answer: admitted>".to_owned(),
            (false, Some(limit)) => format!("<Answer: refused by {limit:?}>"),
            (false, None) => "<Answer: refused>".to_owned(),
        }
    }
}
