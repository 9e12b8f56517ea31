//! What was granted, until it ends; or what was refused, which holds nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::{Admission, Decision, Lease, LeaseError, Outcome, Request, Settlement};

use crate::amount::number;
use crate::awaiting::{Answer, Awaitable};
use crate::blocking;
use crate::error::{exception, raised};
use crate::limit::duration;
use crate::request::{Amounts, Names};

/// What a set or a pool tells each of its acquisitions.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) names: Names,
    /// The positions of the rates whose use is to be reported before the end.
    pub(crate) reported: Vec<usize>,
    /// By member of a pool, or one for a set.
    pub(crate) configs: Vec<(Option<String>, Py<PyAny>)>,
}

impl Terms {
    fn config(&self, py: Python<'_>, member: Option<&str>) -> Py<PyAny> {
        let mut configs = self.configs.iter();
        let config = configs.find(|(name, _)| name.as_deref() == member);
        config.map_or_else(|| py.None(), |(_, config)| config.clone_ref(py))
    }
}

#[derive(Default)]
struct State {
    lease: Option<Lease>,
    usage: Amounts,
    reclaimed: Vec<(String, u64)>,
}

/// How it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Done,
    Failed,
    Cancelled,
}

/// What was granted, until it ends; or what was refused, which holds nothing and is false.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct Acquisition {
    terms: Arc<Terms>,
    /// The rates that were taken, by position.
    requested: Amounts,
    decision: Option<Decision>,
    successful: bool,
    member: Option<String>,
    fence: u64,
    state: Mutex<State>,
}

impl Acquisition {
    pub(crate) fn new(terms: Arc<Terms>, requested: Amounts, admission: Admission) -> Self {
        match admission {
            Admission::Granted(lease) => Self {
                terms,
                requested,
                decision: lease.decision().cloned(),
                successful: true,
                member: lease.member().map(str::to_owned),
                fence: lease.fence(),
                state: Mutex::new(State {
                    lease: Some(lease),
                    ..State::default()
                }),
            },
            Admission::Refused(decision) => Self {
                terms,
                requested,
                member: decision.member().map(str::to_owned),
                decision: Some(decision),
                successful: false,
                fence: 0,
                state: Mutex::default(),
            },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, py: Python<'_>) -> PyErr {
        let why = match self.successful {
            true => "the acquisition has ended; acquire again",
            false => "nothing was acquired",
        };
        exception(py, "LeaseEnded", (why,))
    }

    /// Takes the lease out, to be ended with what was reported.
    fn ending(&self, py: Python<'_>, how: Ending) -> PyResult<Option<End>> {
        let mut state = self.state();
        let Some(mut lease) = state.lease.take() else {
            return Ok(None);
        };
        let usage = std::mem::take(&mut state.usage);
        drop(state);
        let is_reported = |position: &usize| {
            let mut taken = self.requested.0.iter();
            let is_taken = taken.any(|(taken, amount)| taken == position && *amount > 0);
            !is_taken || usage.0.iter().any(|(reported, _)| reported == position)
        };
        let names = &self.terms.names;
        let mut reported = self.terms.reported.iter();
        let missing = reported.find(|position| !is_reported(position));
        let missing = missing.filter(|_| how == Ending::Done);
        if how == Ending::Failed {
            lease.fail();
        } else {
            lease.set_outcome(Outcome::Succeeded);
        }
        Ok(Some(End {
            lease,
            how,
            usage: names
                .named(&usage)
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), amount))
                .collect(),
            unreported: missing.map(|&position| {
                let name = names.name(position);
                let words = format!("how much of {name:?} was used? call update(usage={{...}})");
                exception(py, "UnreportedUsage", (words,))
            }),
        }))
    }

    /// Notes how it ended.
    fn note(&self, py: Python<'_>, ended: Result<Settlement, LeaseError>) -> PyResult<()> {
        let settlement = ended.map_err(|error| raised(py, &error.into()))?;
        let back = settlement
            .usages()
            .filter(|(_, usage)| usage.taken > usage.used);
        let back = back.map(|(name, usage)| (name.to_owned(), usage.taken - usage.used));
        self.state().reclaimed = back.collect();
        Ok(())
    }

    fn end(&self, py: Python<'_>, how: Ending) -> PyResult<()> {
        let Some(mut end) = self.ending(py, how)? else {
            return Ok(());
        };
        let unreported = end.unreported.take();
        let ended = blocking::wait(py, end.run())?;
        match unreported {
            Some(unreported) => Err(unreported),
            None => self.note(py, ended),
        }
    }

    fn end_async(slf: &Bound<'_, Self>, how: Ending, answer: Py<PyAny>) -> PyResult<Awaitable> {
        let py = slf.py();
        let Some(mut end) = slf.get().ending(py, how)? else {
            let answer: Answer = Box::new(move |_| Ok(answer));
            return Ok(Awaitable::new(std::future::ready(answer)));
        };
        let unreported = end.unreported.take();
        let own = slf.clone().unbind();
        Ok(Awaitable::new(async move {
            let ended = end.run().await;
            let answer: Answer = Box::new(move |py| {
                match unreported {
                    Some(unreported) => return Err(unreported),
                    None if how == Ending::Failed => drop(own.get().note(py, ended)),
                    None => own.get().note(py, ended)?,
                }
                Ok(answer)
            });
            answer
        }))
    }
}

/// A lease on its way to its end.
struct End {
    lease: Lease,
    how: Ending,
    usage: Vec<(String, u64)>,
    unreported: Option<PyErr>,
}

impl End {
    async fn run(mut self) -> Result<Settlement, LeaseError> {
        let named: Vec<(&str, u64)> = self
            .usage
            .iter()
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect();
        match self.how {
            Ending::Cancelled => self.lease.cancel().await,
            Ending::Failed if named.is_empty() => self.lease.release().await,
            _ if named.is_empty() => self.lease.release().await,
            _ => self.lease.settle(Request::named(&named)).await,
        }
    }
}

#[pymethods]
impl Acquisition {
    #[getter]
    const fn successful(&self) -> bool {
        self.successful
    }

    const fn __bool__(&self) -> bool {
        self.successful
    }

    #[getter]
    fn config(&self, py: Python<'_>) -> Py<PyAny> {
        self.terms.config(py, self.member.as_deref())
    }

    #[getter]
    fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    #[getter]
    const fn fence(&self) -> u64 {
        self.fence
    }

    #[getter]
    fn limit(&self) -> Option<&str> {
        self.decision.as_ref()?.binding()
    }

    #[getter]
    fn degraded(&self) -> bool {
        self.decision.as_ref().is_some_and(Decision::degraded)
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        Some(self.decision.as_ref()?.retry_after()?.as_secs_f64())
    }

    #[getter]
    fn remaining<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let remaining = PyDict::new(py);
        let names = &self.terms.names;
        for (name, standing) in self.decision.iter().flat_map(Decision::standings) {
            let unit = names.unit(name).unwrap_or(tidegate::Unit::ONE);
            remaining.set_item(name, number(py, unit, standing.remaining)?)?;
        }
        for name in names.infinite() {
            remaining.set_item(name, f64::INFINITY)?;
        }
        Ok(remaining)
    }

    #[getter]
    fn reclaimed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let reclaimed = PyDict::new(py);
        for (name, amount) in &self.state().reclaimed {
            let unit = self.terms.names.unit(name).unwrap_or(tidegate::Unit::ONE);
            reclaimed.set_item(name, number(py, unit, *amount)?)?;
        }
        Ok(reclaimed)
    }

    /// Reports what was really used: charged at the end in place of what was taken.
    fn update(&self, py: Python<'_>, usage: &Bound<'_, PyDict>) -> PyResult<()> {
        let usage = self.terms.names.amounts(Some(usage))?;
        let mut state = self.state();
        if state.lease.is_none() {
            return Err(self.ended(py));
        }
        state.usage.update(usage);
        Ok(())
    }

    /// Changes how much is taken; `False` if more does not fit.
    #[pyo3(signature = (requested, *, overdraw=false))]
    fn adjust(
        &self,
        py: Python<'_>,
        requested: &Bound<'_, PyDict>,
        overdraw: bool,
    ) -> PyResult<bool> {
        let to = self.terms.names.amounts(Some(requested))?;
        let lease = self.state().lease.take();
        let mut lease = lease.ok_or_else(|| self.ended(py))?;
        let named = self.terms.names.named(&to);
        let changed = blocking::wait(py, async {
            let request = Request::named(&named);
            match overdraw {
                true => lease.overdraw(request).await,
                false => lease.adjust(request).await,
            }
        });
        self.state().lease = Some(lease);
        let decision = changed?.map_err(|error| raised(py, &error.into()))?;
        Ok(decision.admitted())
    }

    /// Holds it for `ttl` seconds from now on.
    fn renew(&self, py: Python<'_>, ttl: f64) -> PyResult<()> {
        let ttl = duration(py, ttl)?;
        let lease = self.state().lease.take();
        let mut lease = lease.ok_or_else(|| self.ended(py))?;
        let renewed = blocking::wait(py, async { lease.renew(ttl).await });
        self.state().lease = Some(lease);
        renewed?
            .map(drop)
            .map_err(|error| raised(py, &error.into()))
    }

    /// Ends it: what is held comes back, and what was reported is charged.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, Ending::Done)
    }

    /// Ends it and gives everything back: the work did not start.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, Ending::Cancelled)
    }

    fn async_release(slf: &Bound<'_, Self>) -> PyResult<Awaitable> {
        Self::end_async(slf, Ending::Done, slf.py().None())
    }

    fn async_cancel(slf: &Bound<'_, Self>) -> PyResult<Awaitable> {
        Self::end_async(slf, Ending::Cancelled, slf.py().None())
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        match kind.is_none() {
            true => self.end(py, Ending::Done)?,
            // The body's own exception comes first.
            false => drop(self.end(py, Ending::Failed)),
        }
        Ok(false)
    }

    fn __aenter__(slf: Py<Self>) -> Awaitable {
        let answer: Answer = Box::new(move |_| Ok(slf.into_any()));
        Awaitable::new(std::future::ready(answer))
    }

    fn __aexit__(
        slf: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<Awaitable> {
        let how = match kind.is_none() {
            true => Ending::Done,
            false => Ending::Failed,
        };
        let no = false
            .into_pyobject(slf.py())?
            .to_owned()
            .into_any()
            .unbind();
        Self::end_async(slf, how, no)
    }

    fn __repr__(&self) -> String {
        let limit = self
            .limit()
            .map(|limit| format!(" by {limit:?}"))
            .unwrap_or_default();
        match (
            self.successful,
            self.state().lease.is_some(),
            self.retry_after(),
        ) {
            (true, true, _) => "<Acquisition: held>".to_owned(),
            (true, false, _) => "<Acquisition: ended>".to_owned(),
            (false, _, Some(seconds)) => {
                format!("<Acquisition: refused{limit}, retry after {seconds} s>")
            }
            (false, _, None) => format!("<Acquisition: refused{limit}>"),
        }
    }
}
