//! Semaphores and mutexes over any store.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tidegate::lock::{LeasedPermit, LeasedSemaphore, LockError};
use tidegate::{Amount, LeaseError};

use crate::awaiting::{Answer, Awaitable};
use crate::blocking;
use crate::clock::ManualClock;
use crate::error::{exception, invalid, raised};
use crate::fork;
use crate::holding::{self, Ending, Holding};
use crate::limit::{LONGEST_TTL, duration};
use crate::named::Named;
use crate::request;
use crate::stats;
use crate::store;

/// By name, with how many slots it has.
static OPENED: Named<(LeasedSemaphore, Amount)> = Named::new();

/// Slots that are held by permits, for each of many keys.
#[pyclass(frozen, subclass, module = "tidegate._core")]
#[derive(Default)]
pub(crate) struct Slots(OnceLock<Open>);

struct Open {
    /// In a forked child, opened anew: threads that renew permits stay with the parent.
    opened: fork::Opened<LeasedSemaphore>,
    plan: Plan,
}

/// What is opened.
struct Plan {
    name: String,
    slots: Amount,
    key: String,
    store: Option<String>,
    ttl: Option<f64>,
    max_waiting: Option<usize>,
    clock: Option<Py<ManualClock>>,
}

impl Plan {
    /// One name in one store (or by one clock) is one semaphore, however often it is opened
    /// in a process.
    fn open(&self, py: Python<'_>) -> PyResult<LeasedSemaphore> {
        let url = self.store.as_deref().unwrap_or("memory:");
        let opened = match &self.clock {
            Some(clock) => &clock.get().semaphores,
            None => &OPENED,
        };
        let (semaphore, slots) = opened.get(py, (url, &self.name), || self.make(py, url))?;
        if slots != self.slots {
            let words = format!(
                "semaphore {:?} was opened with {slots} slots in this process, not {}; use one \
                 number for one name",
                self.name, self.slots
            );
            return Err(invalid(py, words));
        }
        Ok(semaphore.of(self.key.as_str()))
    }

    fn make(&self, py: Python<'_>, url: &str) -> PyResult<(LeasedSemaphore, Amount)> {
        let mut builder = LeasedSemaphore::builder(&self.name, self.slots);
        builder = match &self.clock {
            Some(clock) => builder.clock(clock.get().clock()),
            None => builder.store(store::open(py, url)?.store),
        };
        // In memory it ends with its process.
        let longest = url.starts_with("memory:").then_some(LONGEST_TTL);
        if let Some(seconds) = self.ttl.or(longest) {
            builder = builder.ttl(duration(py, seconds)?);
        }
        if let Some(most) = self.max_waiting {
            builder = builder.max_waiting(most);
        }
        let built = py.detach(|| builder.build());
        let built = built.map_err(|error| raised(py, &error.into()))?;
        Ok((built, self.slots))
    }
}

/// One acquisition, as it is asked for.
struct Asked {
    semaphore: LeasedSemaphore,
    name: String,
    within: Duration,
    /// Whether it waits; else a refusal is an answer.
    waits: bool,
}

impl Asked {
    async fn run(&self) -> Result<Option<LeasedPermit>, LockError> {
        self.semaphore.acquire_within(self.within).await
    }

    fn granted(
        &self,
        py: Python<'_>,
        permit: Result<Option<LeasedPermit>, LockError>,
    ) -> PyResult<Option<Permit>> {
        match permit.map_err(|error| raised(py, &error.into()))? {
            Some(permit) => Ok(Some(Permit {
                name: self.name.clone(),
                fence: permit.fence(),
                permit: fork::Own::new(Mutex::new(Some(permit))),
            })),
            None if self.waits => {
                let words = format!("no slot of {:?} was free in time", self.name);
                Err(exception(py, "AcquireTimeout", (words, &self.name)))
            }
            None => Ok(None),
        }
    }

    fn wait(&self, py: Python<'_>) -> PyResult<Option<Permit>> {
        let permit = blocking::wait(py, self.run())?;
        self.granted(py, permit)
    }

    fn later(self) -> Awaitable {
        Awaitable::new(async move {
            let permit = self.run().await;
            let answer: Answer = Box::new(move |py| {
                let permit = self.granted(py, permit)?;
                Ok(permit.into_pyobject(py)?.unbind())
            });
            answer
        })
    }
}

impl Slots {
    fn open(&self) -> PyResult<&Open> {
        let unopened = || PyRuntimeError::new_err("call super().__init__(...) first");
        self.0.get().ok_or_else(unopened)
    }

    fn asked(
        &self,
        py: Python<'_>,
        slots: Amount,
        timeout: Option<f64>,
        priority: i64,
        waits: bool,
    ) -> PyResult<Asked> {
        let within = request::within(py, timeout)?;
        let priority = request::one_of_256(py, priority)?;
        let open = self.open()?;
        let mut semaphore = open.opened.get(|| open.plan.open(py))?.priority(priority);
        if slots != 1 {
            semaphore = semaphore.many(slots);
        }
        Ok(Asked {
            semaphore,
            name: open.plan.name.clone(),
            within,
            waits,
        })
    }
}

#[pymethods]
impl Slots {
    /// Whatever its subclass is given, `__init__` opens it.
    #[new]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(_arguments: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Self {
        Self::default()
    }

    #[pyo3(signature = (name, slots, *, key, store=None, ttl=None, max_waiting=None, clock=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "those of the Python class above it"
    )]
    fn __init__(
        &self,
        py: Python<'_>,
        name: String,
        #[pyo3(from_py_with = request::slots)] slots: Amount,
        key: String,
        store: Option<String>,
        ttl: Option<f64>,
        #[pyo3(from_py_with = request::max_waiting)] max_waiting: Option<usize>,
        clock: Option<Py<ManualClock>>,
    ) -> PyResult<()> {
        let plan = Plan {
            name,
            slots,
            key,
            store,
            ttl,
            max_waiting,
            clock,
        };
        let opened = fork::Opened::new(plan.open(py)?);
        let again = |_| PyRuntimeError::new_err("__init__ was called before");
        self.0.set(Open { opened, plan }).map_err(again)
    }

    #[pyo3(signature = (timeout=None, *, slots=1, priority=0))]
    fn acquire(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        #[pyo3(from_py_with = request::slots)] slots: Amount,
        priority: i64,
    ) -> PyResult<Option<Permit>> {
        self.asked(py, slots, timeout, priority, true)?.wait(py)
    }

    #[pyo3(signature = (*, slots=1))]
    fn try_acquire(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = request::slots)] slots: Amount,
    ) -> PyResult<Option<Permit>> {
        self.asked(py, slots, Some(0.0), 0, false)?.wait(py)
    }

    #[pyo3(signature = (timeout=None, *, slots=1, priority=0))]
    fn async_acquire(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        #[pyo3(from_py_with = request::slots)] slots: Amount,
        priority: i64,
    ) -> PyResult<Awaitable> {
        Ok(self.asked(py, slots, timeout, priority, true)?.later())
    }

    #[pyo3(signature = (*, slots=1))]
    fn async_try_acquire(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = request::slots)] slots: Amount,
    ) -> PyResult<Awaitable> {
        Ok(self.asked(py, slots, Some(0.0), 0, false)?.later())
    }

    /// How many slots are free.
    fn available(&self, py: Python<'_>) -> PyResult<Amount> {
        let open = self.open()?;
        let semaphore = open.opened.get(|| open.plan.open(py))?;
        let available = blocking::wait(py, semaphore.available())?;
        available.map_err(|error| raised(py, &error.into()))
    }

    /// What was counted in this process, of all keys.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let open = self.open()?;
        let semaphore = open.opened.get(|| open.plan.open(py))?;
        stats::dictionary(py, &semaphore.set().statistics())
    }
}

/// A slot that is held, and renewed until it is released.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct Permit {
    name: String,
    fence: u64,
    permit: fork::Own<Mutex<Option<LeasedPermit>>>,
}

impl Permit {
    fn held(&self) -> Option<MutexGuard<'_, Option<LeasedPermit>>> {
        let permit = self.permit.get()?;
        Some(permit.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Holding for Permit {
    type Ended = Result<(), LeaseError>;

    async fn end(&self, _how: Ending) -> Option<Self::Ended> {
        let permit = self.held()?.take()?;
        Some(permit.release().await)
    }

    fn told(&self, py: Python<'_>, ended: Self::Ended) -> PyResult<()> {
        ended.map_err(|error| raised(py, &error.into()))
    }
}

#[pymethods]
impl Permit {
    #[getter]
    const fn fence(&self) -> u64 {
        self.fence
    }

    #[getter]
    fn is_held(&self) -> bool {
        let held = self.held();
        held.is_some_and(|permit| permit.as_ref().is_some_and(LeasedPermit::is_held))
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        holding::end(py, self, Ending::Done)
    }

    fn async_release(slf: Py<Self>) -> Awaitable {
        holding::end_later(slf, Ending::Done)
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        holding::exit(self, kind)
    }

    fn __aenter__(slf: Py<Self>) -> Awaitable {
        holding::enter_later(slf)
    }

    fn __aexit__(
        slf: Py<Self>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> Awaitable {
        holding::exit_later(slf, kind)
    }

    fn __repr__(&self) -> String {
        let state = match self.is_held() {
            true => "held",
            false => "ended",
        };
        format!("<Permit of {}: {state}, fence {}>", self.name, self.fence)
    }
}
