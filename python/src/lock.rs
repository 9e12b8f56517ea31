//! Semaphores and mutexes over any store.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use tidegate::lock::{LeasedPermit, LeasedSemaphore, LockError};
use tidegate::{Amount, Error, LeaseError};

use crate::awaiting::{Answer, Awaitable};
use crate::blocking;
use crate::error::{exception, invalid, raised};
use crate::fork;
use crate::limit::duration;
use crate::request;
use crate::store;

/// So many names at most: they stay for as long as the process.
const MOST_NAMES: usize = 10_000;

type Opened = HashMap<(u64, String, String), (LeasedSemaphore, Amount)>;

static OPENED: Mutex<Option<Opened>> = Mutex::new(None);

static OPENING: tidegate::Mutex<()> = tidegate::Mutex::new(());

/// Slots that are held by permits, for each of many keys.
#[pyclass(frozen, subclass, module = "tidegate._core")]
pub(crate) struct Slots {
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
}

impl Plan {
    /// One name in one store is one semaphore, however often it is opened in a process.
    fn open(&self, py: Python<'_>) -> PyResult<LeasedSemaphore> {
        let url = self.store.as_deref().unwrap_or("memory:");
        let id = (fork::generation(), url.to_owned(), self.name.clone());
        let known = || {
            let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
            opened.get_or_insert_default().get(&id).cloned()
        };
        // One thread makes it; whoever waits for that does so without the interpreter's lock.
        let _opening = blocking::wait(py, OPENING.lock())?;
        let open = known().map_or_else(|| self.make(py, url), Ok)?;
        if open.1 != self.slots {
            let words = format!("{:?} has {} slots in this process", self.name, open.1);
            return Err(invalid(py, words));
        }
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.get_or_insert_default();
        if opened.len() >= MOST_NAMES && !opened.contains_key(&id) {
            let words =
                format!("{MOST_NAMES} names are open; use one name, and key= for each thing");
            return Err(invalid(py, words));
        }
        let (semaphore, _) = opened.entry(id).or_insert(open);
        Ok(semaphore.of(self.key.as_str()))
    }

    fn make(&self, py: Python<'_>, url: &str) -> PyResult<(LeasedSemaphore, Amount)> {
        let mut builder = LeasedSemaphore::builder(&self.name, self.slots);
        builder = builder.store(store::open(py, url)?.store);
        if let Some(seconds) = self.ttl {
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
    within: Duration,
}

impl Asked {
    async fn run(&self) -> Result<Option<LeasedPermit>, LockError> {
        self.semaphore.acquire_within(self.within).await
    }
}

/// The permit; who waits is granted or raises.
fn granted(
    py: Python<'_>,
    permit: Result<Option<LeasedPermit>, LockError>,
    waits: bool,
) -> PyResult<Option<Permit>> {
    match permit.map_err(|error| raised(py, &error.into()))? {
        Some(permit) => Ok(Some(Permit {
            generation: fork::generation(),
            fence: permit.fence(),
            permit: Mutex::new(Some(permit)),
        })),
        None if waits => Err(exception(
            py,
            "AcquireTimeout",
            ("no slot was free in time",),
        )),
        None => Ok(None),
    }
}

impl Slots {
    /// In a forked child, opened anew: threads that renew permits stay with the parent.
    fn semaphore(&self, py: Python<'_>) -> PyResult<LeasedSemaphore> {
        self.opened.get(false, || self.plan.open(py))
    }

    fn asked(
        &self,
        py: Python<'_>,
        slots: Amount,
        timeout: Option<f64>,
        priority: i64,
    ) -> PyResult<Asked> {
        let within = request::within(py, timeout)?;
        let priority = request::one_of_256(py, priority)?;
        let mut semaphore = self.semaphore(py)?.priority(priority);
        if slots != 1 {
            semaphore = semaphore.many(slots);
        }
        Ok(Asked { semaphore, within })
    }

    fn later(asked: Asked, waits: bool) -> Awaitable {
        Awaitable::new(async move {
            let permit = asked.run().await;
            let answer: Answer = Box::new(move |py| {
                let permit = granted(py, permit, waits)?;
                Ok(permit.into_pyobject(py)?.unbind())
            });
            answer
        })
    }
}

#[pymethods]
impl Slots {
    #[new]
    #[pyo3(signature = (name, slots, *, key, store=None, ttl=None, max_waiting=None))]
    fn new(
        py: Python<'_>,
        name: String,
        slots: Amount,
        key: String,
        store: Option<String>,
        ttl: Option<f64>,
        max_waiting: Option<usize>,
    ) -> PyResult<Self> {
        let plan = Plan {
            name,
            slots,
            key,
            store,
            ttl,
            max_waiting,
        };
        Ok(Self {
            opened: fork::Opened::new(plan.open(py)?),
            plan,
        })
    }

    #[pyo3(signature = (timeout=None, *, slots=1, priority=0))]
    fn acquire(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        slots: Amount,
        priority: i64,
    ) -> PyResult<Option<Permit>> {
        let asked = self.asked(py, slots, timeout, priority)?;
        granted(py, blocking::wait(py, asked.run())?, true)
    }

    #[pyo3(signature = (*, slots=1))]
    fn try_acquire(&self, py: Python<'_>, slots: Amount) -> PyResult<Option<Permit>> {
        let asked = self.asked(py, slots, Some(0.0), 0)?;
        granted(py, blocking::wait(py, asked.run())?, false)
    }

    #[pyo3(signature = (timeout=None, *, slots=1, priority=0))]
    fn async_acquire(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        slots: Amount,
        priority: i64,
    ) -> PyResult<Awaitable> {
        Ok(Self::later(self.asked(py, slots, timeout, priority)?, true))
    }

    #[pyo3(signature = (*, slots=1))]
    fn async_try_acquire(&self, py: Python<'_>, slots: Amount) -> PyResult<Awaitable> {
        Ok(Self::later(self.asked(py, slots, Some(0.0), 0)?, false))
    }

    /// How many slots are free.
    fn available(&self, py: Python<'_>) -> PyResult<Amount> {
        let semaphore = self.semaphore(py)?;
        let available = blocking::wait(py, semaphore.available())?;
        available.map_err(|error| raised(py, &error.into()))
    }
}

/// A slot that is held, and renewed until it is released.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct Permit {
    generation: u64,
    fence: u64,
    permit: Mutex<Option<LeasedPermit>>,
}

impl Permit {
    fn held(&self) -> MutexGuard<'_, Option<LeasedPermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be released. A forked child has none of its parent's.
    fn taken(&self) -> Option<LeasedPermit> {
        let permit = self.held().take();
        if self.generation == fork::generation() {
            return permit;
        }
        fork::leave(permit);
        None
    }

    /// One that was released already stays so.
    async fn end(permit: Option<LeasedPermit>) -> Result<(), LeaseError> {
        match permit {
            Some(permit) => permit.release().await,
            None => Ok(()),
        }
    }

    /// The body's own exception comes first.
    fn end_async(&self, has_failed: bool, answer: Py<PyAny>) -> Awaitable {
        let permit = self.taken();
        Awaitable::new(async move {
            let ended = Self::end(permit).await;
            let result: Answer = Box::new(move |py| match ended {
                Err(error) if !has_failed => Err(raised(py, &Error::from(error))),
                _ => Ok(answer),
            });
            result
        })
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
        self.held().as_ref().is_some_and(LeasedPermit::is_held)
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let permit = self.taken();
        let ended = blocking::wait(py, Self::end(permit))?;
        ended.map_err(|error| raised(py, &error.into()))
    }

    fn async_release(&self, py: Python<'_>) -> Awaitable {
        self.end_async(false, py.None())
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
        let released = self.release(py);
        match kind.is_none() {
            true => released?,
            false => drop(released),
        }
        Ok(false)
    }

    fn __aenter__(slf: Py<Self>) -> Awaitable {
        let answer: Answer = Box::new(move |_| Ok(slf.into_any()));
        Awaitable::new(std::future::ready(answer))
    }

    fn __aexit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<Awaitable> {
        let no = false.into_pyobject(py)?.to_owned().into_any().unbind();
        Ok(self.end_async(!kind.is_none(), no))
    }

    fn __repr__(&self) -> String {
        match self.is_held() {
            true => format!("<Permit: held, fence {}>", self.fence),
            false => format!("<Permit: ended, fence {}>", self.fence),
        }
    }
}
