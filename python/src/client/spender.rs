//! What spends grants of a server, mostly without asking it.

use pyo3::prelude::*;
use tidegate_client::{Amounts, Spender, SpenderBuilder, Take};

use super::driving::{carry_out, run, runtime};
use super::words::{quantities, quantity, raised, seconds};
use crate::fork;

/// Whether a request may start.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct Spent(Take);

#[pymethods]
impl Spent {
    const fn __bool__(&self) -> bool {
        self.0.is_admitted()
    }

    #[getter]
    const fn admitted(&self) -> bool {
        self.0.is_admitted()
    }

    #[getter]
    fn limit(&self) -> Option<String> {
        self.0.refusal().and_then(|answer| answer.binding.clone())
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.0.refusal().and_then(seconds)
    }

    fn __repr__(&self) -> String {
        match (self.0.is_admitted(), self.limit()) {
            (true, _) => "<Spent: admitted>".to_owned(),
            (false, Some(limit)) => format!("<Spent: refused by {limit:?}>"),
            (false, None) => "<Spent: refused>".to_owned(),
        }
    }
}

/// What spends the limits of a key.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct ServerSpender {
    opened: fork::Opened<Spender>,
    builder: SpenderBuilder,
    is_awaited: bool,
}

impl ServerSpender {
    pub(super) fn new(py: Python<'_>, builder: SpenderBuilder, is_awaited: bool) -> PyResult<Self> {
        Ok(Self {
            opened: fork::Opened::new(open(py, &builder)?),
            builder,
            is_awaited,
        })
    }

    /// In a forked child, made anew: what its parent holds is its parent's.
    fn spender(&self, py: Python<'_>) -> PyResult<Spender> {
        self.opened.get(|| open(py, &self.builder))
    }
}

fn open(py: Python<'_>, builder: &SpenderBuilder) -> PyResult<Spender> {
    let _within = runtime(py)?.enter();
    Ok(builder.clone().build())
}

fn amounts(
    requested: Option<&Bound<'_, PyAny>>,
    cost: Option<&Bound<'_, PyAny>>,
) -> PyResult<Amounts> {
    let mut amounts = Amounts::new();
    for (name, number) in quantities(requested)? {
        amounts = amounts.amount(name, number);
    }
    match cost {
        Some(cost) => Ok(amounts.cost(quantity("cost", cost)?)),
        None => Ok(amounts),
    }
}

#[pymethods]
impl ServerSpender {
    #[pyo3(signature = (requested, cost))]
    fn take(
        &self,
        py: Python<'_>,
        requested: Option<Bound<'_, PyAny>>,
        cost: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let amounts = amounts(requested.as_ref(), cost.as_ref())?;
        let spender = self.spender(py)?;
        let verb = async move { spender.take(amounts).await };
        run(py, self.is_awaited, verb, |py, take| {
            let take = take.map_err(|error| raised(py, &error))?;
            Ok(Py::new(py, Spent(take))?.into_any())
        })
    }

    #[pyo3(signature = (used, cost))]
    fn spend(
        &self,
        py: Python<'_>,
        used: Option<Bound<'_, PyAny>>,
        cost: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let amounts = amounts(used.as_ref(), cost.as_ref())?;
        let spender = self.spender(py)?;
        let verb = async move { spender.spend(amounts).await };
        carry_out(py, self.is_awaited, verb, |py, spent| {
            spent.map_err(|error| raised(py, &error))?;
            Ok(py.None())
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let spender = self.spender(py)?;
        let verb = async move { spender.close().await };
        carry_out(py, self.is_awaited, verb, |py, ()| Ok(py.None()))
    }
}
