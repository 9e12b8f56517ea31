//! What was granted, until it ends; or what was refused, which holds nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::{Admission, Decision, Lease, LeaseError, Outcome, Request, Settlement};

use crate::amount::number;
use crate::awaiting::{Answer, Awaitable};
use crate::blocking;
use crate::error::{exception, raised};
use crate::fork;
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
    /// A forked child has a copy of its own.
    pub(crate) is_of_its_process: bool,
    /// How long what is acquired is held at most, unless an acquisition says it.
    pub(crate) ttl: Option<f64>,
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
    usage: Amounts,
    reclaimed: Vec<(String, u64)>,
}

/// The lease. Verbs on it come one after the other; whoever ends it takes it out.
type Held = Arc<tidegate::Mutex<Option<Lease>>>;

/// In how many seconds a request would be granted. Of what is held nobody can tell.
pub(crate) fn retry_after(decision: &Decision, names: &Names) -> Option<f64> {
    let is_held = decision.binding().is_some_and(|limit| names.is_held(limit));
    match is_held {
        true => None,
        false => Some(decision.retry_after()?.as_secs_f64()),
    }
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
    /// Of which fork's process it is.
    generation: u64,
    lease: Held,
    is_held: AtomicBool,
    state: Mutex<State>,
}

impl Acquisition {
    pub(crate) fn new(terms: Arc<Terms>, requested: Amounts, admission: Admission) -> Self {
        let (decision, lease) = match admission {
            Admission::Granted(lease) => (lease.decision().cloned(), Some(lease)),
            Admission::Refused(decision) => (Some(decision), None),
        };
        let member = match &lease {
            Some(lease) => lease.member(),
            None => decision.as_ref().and_then(Decision::member),
        };
        Self {
            member: member.map(str::to_owned),
            successful: lease.is_some(),
            fence: lease.as_ref().map_or(0, Lease::fence),
            generation: fork::generation(),
            is_held: AtomicBool::new(lease.is_some()),
            lease: Arc::new(tidegate::Mutex::new(lease)),
            state: Mutex::default(),
            terms,
            requested,
            decision,
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

    /// Who ends it does so with what was reported; `None`: it has ended, or is another
    /// process's.
    fn ending(&self, py: Python<'_>, how: Ending) -> Option<End> {
        if !self.is_held.swap(false, Ordering::SeqCst) {
            return None;
        }
        if self.generation != fork::generation() && !self.terms.is_of_its_process {
            fork::leave(Arc::clone(&self.lease));
            return None;
        }
        let usage = std::mem::take(&mut self.state().usage);
        let is_reported = |position: &usize| {
            let mut taken = self.requested.0.iter();
            let is_taken = taken.any(|(taken, amount)| taken == position && *amount > 0);
            !is_taken || usage.0.iter().any(|(reported, _)| reported == position)
        };
        let names = &self.terms.names;
        let mut reported = self.terms.reported.iter();
        let missing = reported.find(|position| !is_reported(position));
        let missing = missing.filter(|_| how == Ending::Done);
        Some(End {
            lease: Arc::clone(&self.lease),
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
        })
    }

    /// Notes how it ended.
    fn note(&self, py: Python<'_>, ended: Option<Result<Settlement, LeaseError>>) -> PyResult<()> {
        let Some(ended) = ended else {
            return Ok(());
        };
        let settlement = ended.map_err(|error| raised(py, &error.into()))?;
        let back = settlement
            .usages()
            .filter(|(_, usage)| usage.taken > usage.used);
        let back = back.map(|(name, usage)| (name.to_owned(), usage.taken - usage.used));
        self.state().reclaimed = back.collect();
        Ok(())
    }

    fn end(&self, py: Python<'_>, how: Ending) -> PyResult<()> {
        let Some(mut end) = self.ending(py, how) else {
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
        let Some(mut end) = slf.get().ending(py, how) else {
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
    lease: Held,
    how: Ending,
    usage: Vec<(String, u64)>,
    unreported: Option<PyErr>,
}

impl End {
    async fn run(self) -> Option<Result<Settlement, LeaseError>> {
        let mut lease = self.lease.lock().await.take()?;
        match self.how {
            Ending::Failed => lease.fail(),
            Ending::Done | Ending::Cancelled => lease.set_outcome(Outcome::Succeeded),
        }
        let usage = self.usage.iter();
        let named: Vec<(&str, u64)> = usage.map(|(name, used)| (name.as_str(), *used)).collect();
        Some(match self.how {
            Ending::Cancelled => lease.cancel().await,
            _ if named.is_empty() => lease.release().await,
            _ => lease.settle(Request::named(&named)).await,
        })
    }
}

/// A change of a lease that goes on.
enum Change {
    Adjust {
        to: Vec<(String, u64)>,
        overdraw: bool,
    },
    Renew(Duration),
}

impl Change {
    /// Whether it was admitted; `None`: the lease has ended.
    async fn run(&self, lease: &Held) -> Option<Result<bool, LeaseError>> {
        let mut lease = lease.lock().await;
        let lease = lease.as_mut()?;
        Some(match self {
            Self::Adjust { to, overdraw } => {
                let named: Vec<(&str, u64)> =
                    to.iter().map(|(name, to)| (name.as_str(), *to)).collect();
                let request = Request::named(&named);
                let changed = match overdraw {
                    true => lease.overdraw(request).await,
                    false => lease.adjust(request).await,
                };
                changed.map(|decision| decision.admitted())
            }
            Self::Renew(ttl) => lease.renew(*ttl).await.map(|_| true),
        })
    }
}

impl Acquisition {
    fn adjustment(&self, requested: &Bound<'_, PyAny>, overdraw: bool) -> PyResult<Change> {
        let to = self.terms.names.amounts(Some(requested))?;
        let named = self.terms.names.named(&to).into_iter();
        Ok(Change::Adjust {
            to: named.map(|(name, to)| (name.to_owned(), to)).collect(),
            overdraw,
        })
    }

    fn told(&self, py: Python<'_>, changed: Option<Result<bool, LeaseError>>) -> PyResult<bool> {
        let changed = changed.ok_or_else(|| self.ended(py))?;
        changed.map_err(|error| raised(py, &error.into()))
    }

    fn change(&self, py: Python<'_>, change: &Change) -> PyResult<bool> {
        let changed = blocking::wait(py, change.run(&self.lease))?;
        self.told(py, changed)
    }

    fn change_async(slf: &Bound<'_, Self>, change: Change) -> Awaitable {
        let (own, lease) = (slf.clone().unbind(), Arc::clone(&slf.get().lease));
        let is_adjustment = matches!(change, Change::Adjust { .. });
        Awaitable::new(async move {
            let changed = change.run(&lease).await;
            let answer: Answer = Box::new(move |py| {
                let is_admitted = own.get().told(py, changed)?;
                match is_adjustment {
                    true => Ok(is_admitted
                        .into_pyobject(py)?
                        .to_owned()
                        .into_any()
                        .unbind()),
                    false => Ok(py.None()),
                }
            });
            answer
        })
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
        let decision = self.decision.as_ref()?;
        retry_after(decision, &self.terms.names)
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
    fn update(&self, py: Python<'_>, usage: &Bound<'_, PyAny>) -> PyResult<()> {
        let usage = self.terms.names.amounts(Some(usage))?;
        if !self.is_held.load(Ordering::SeqCst) {
            return Err(self.ended(py));
        }
        self.state().usage.update(usage);
        Ok(())
    }

    /// Changes how much is taken; `False` if more does not fit.
    #[pyo3(signature = (requested, *, overdraw=false))]
    fn adjust(
        &self,
        py: Python<'_>,
        requested: &Bound<'_, PyAny>,
        overdraw: bool,
    ) -> PyResult<bool> {
        let change = self.adjustment(requested, overdraw)?;
        self.change(py, &change)
    }

    #[pyo3(signature = (requested, *, overdraw=false))]
    fn async_adjust(
        slf: &Bound<'_, Self>,
        requested: &Bound<'_, PyAny>,
        overdraw: bool,
    ) -> PyResult<Awaitable> {
        let change = slf.get().adjustment(requested, overdraw)?;
        Ok(Self::change_async(slf, change))
    }

    /// Holds it for `ttl` seconds from now on.
    fn renew(&self, py: Python<'_>, ttl: f64) -> PyResult<()> {
        self.change(py, &Change::Renew(duration(py, ttl)?))
            .map(drop)
    }

    fn async_renew(slf: &Bound<'_, Self>, ttl: f64) -> PyResult<Awaitable> {
        let change = Change::Renew(duration(slf.py(), ttl)?);
        Ok(Self::change_async(slf, change))
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
            self.is_held.load(Ordering::SeqCst),
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
