//! The verbs of sets and pools, on a thread and awaited.

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::Error;

use crate::acquisition::Acquisition;
use crate::awaiting::{Answer, Awaitable};
use crate::blocking;
use crate::limiter::Limiter;
use crate::plan::Target;
use crate::request::{Amounts, Manner, Names};
use crate::stats;
use crate::untaken::Untaken;

/// One acquisition, as it is asked for.
struct Asked {
    target: Target,
    amounts: Amounts,
    manner: Manner,
    /// Whether it waits; else a refusal is an answer.
    waits: bool,
    /// Whether it is renewed until it ends.
    keep_alive: bool,
}

/// How long it waits, and whether it does; its priority; its ttl, and whether it is kept alive.
type Words = (Option<f64>, bool, i64, (Option<f64>, bool));

impl Asked {
    fn new(
        own: &Bound<'_, Limiter>,
        requested: Option<&Bound<'_, PyAny>>,
        (timeout, waits, priority, (ttl, keep_alive)): Words,
    ) -> PyResult<Self> {
        let (py, limiter) = (own.py(), own.get());
        Ok(Self {
            amounts: limiter.names()?.amounts(requested)?,
            manner: Manner::new(py, timeout, priority, ttl.or(limiter.ttl()))?,
            target: limiter.target(py)?,
            waits,
            keep_alive,
        })
    }

    async fn run(&self, names: &Names, key: &str) -> Result<Untaken, Error> {
        let named = names.named(&self.amounts);
        let request = self.manner.request(&named);
        let admission = self.target.ask(key, request, self.waits).await?;
        let mut untaken = Untaken::new(admission);
        if let (Some(lease), true) = (untaken.lease(), self.keep_alive) {
            lease.renew_when_due(self.manner.ttl())?;
        }
        Ok(untaken)
    }

    fn wait(self, own: &Bound<'_, Limiter>, key: &str) -> PyResult<Acquisition> {
        let admission = blocking::wait(own.py(), self.run(own.get().names()?, key))?;
        Acquisition::new(own, (&self.target, self.amounts), admission, self.waits)
    }

    fn later(self, own: &Bound<'_, Limiter>, key: &str) -> Awaitable {
        let (own, key) = (own.clone().unbind(), key.to_owned());
        Awaitable::new(async move {
            let admission = match own.get().names() {
                Ok(names) => Ok(self.run(names, &key).await),
                Err(error) => Err(error),
            };
            let answer: Answer = Box::new(move |py| {
                let own = own.into_bound(py);
                let acquired =
                    Acquisition::new(&own, (&self.target, self.amounts), admission?, self.waits)?;
                Ok(Py::new(py, acquired)?.into_any())
            });
            answer
        })
    }
}

#[pymethods]
impl Limiter {
    #[pyo3(signature = (requested=None, timeout=None, priority=0, *, key="default", ttl=None, keep_alive=false))]
    fn acquire(
        slf: &Bound<'_, Self>,
        requested: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        priority: i64,
        key: &str,
        ttl: Option<f64>,
        keep_alive: bool,
    ) -> PyResult<Acquisition> {
        Asked::new(slf, requested, (timeout, true, priority, (ttl, keep_alive)))?.wait(slf, key)
    }

    #[pyo3(signature = (requested=None, priority=0, *, key="default", ttl=None, keep_alive=false))]
    fn try_acquire(
        slf: &Bound<'_, Self>,
        requested: Option<&Bound<'_, PyAny>>,
        priority: i64,
        key: &str,
        ttl: Option<f64>,
        keep_alive: bool,
    ) -> PyResult<Acquisition> {
        Asked::new(slf, requested, (None, false, priority, (ttl, keep_alive)))?.wait(slf, key)
    }

    #[pyo3(signature = (requested=None, timeout=None, priority=0, *, key="default", ttl=None, keep_alive=false))]
    fn async_acquire(
        slf: &Bound<'_, Self>,
        requested: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        priority: i64,
        key: &str,
        ttl: Option<f64>,
        keep_alive: bool,
    ) -> PyResult<Awaitable> {
        Ok(
            Asked::new(slf, requested, (timeout, true, priority, (ttl, keep_alive)))?
                .later(slf, key),
        )
    }

    #[pyo3(signature = (requested=None, priority=0, *, key="default", ttl=None, keep_alive=false))]
    fn async_try_acquire(
        slf: &Bound<'_, Self>,
        requested: Option<&Bound<'_, PyAny>>,
        priority: i64,
        key: &str,
        ttl: Option<f64>,
        keep_alive: bool,
    ) -> PyResult<Awaitable> {
        Ok(Asked::new(slf, requested, (None, false, priority, (ttl, keep_alive)))?.later(slf, key))
    }

    /// What was counted in this process since it was made.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (counted, refused) = self.target(py)?.counted();
        let refusals = PyDict::new(py);
        for (name, _) in self.names()?.finite() {
            refusals.set_item(name, 0)?;
        }
        for (name, number) in refused {
            refusals.set_item(name, number)?;
        }
        let stats = stats::dictionary(py, &counted)?;
        stats.set_item("refusals", refusals)?;
        Ok(stats)
    }

    /// A config or a balancer may refer back to its set or pool.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.plan().map_or(Ok(()), |plan| plan.traverse(&visit))
    }

    fn __clear__(&self) {
        if let Some(plan) = self.plan() {
            plan.clear();
        }
    }
}
