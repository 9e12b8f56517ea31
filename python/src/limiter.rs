//! What can be asked of a set and of a pool: the verbs, on a thread and awaited.

use std::sync::OnceLock;

use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::{Admission, DecisionError, Error, LimitPool, LimitSet, Request, Statistics};

use crate::acquisition::Acquisition;
use crate::awaiting::{Answer, Awaitable};
use crate::blocking;
use crate::fork;
use crate::pool;
use crate::request::{Amounts, Manner, Names};
use crate::set;
use crate::stats;
use crate::untaken::Untaken;

/// A set or a pool, once its `__init__` was called.
#[pyclass(frozen, subclass, module = "tidegate._core")]
#[derive(Default)]
pub(crate) struct Limiter(OnceLock<Open>);

struct Open {
    opened: fork::Opened<Target>,
    plan: Plan,
    names: Names,
    /// How long what is acquired is held at most, in seconds, unless an acquisition says it.
    ttl: Option<f64>,
}

/// How it is opened.
pub(crate) enum Plan {
    Set(set::Plan),
    Pool(pool::Plan),
}

/// Where verbs lead.
#[derive(Clone)]
pub(crate) enum Target {
    Set(LimitSet),
    Pool(LimitPool),
}

impl Plan {
    fn open(&self, py: Python<'_>) -> PyResult<Target> {
        match self {
            Self::Set(plan) => plan.open(py).map(Target::Set),
            Self::Pool(plan) => plan.open(py).map(Target::Pool),
        }
    }

    fn ttl(&self, py: Python<'_>) -> Option<f64> {
        match self {
            Self::Set(plan) => plan.ttl(),
            Self::Pool(plan) => plan.ttl(py),
        }
    }
}

impl Target {
    async fn ask(
        &self,
        key: &str,
        request: Request<'_>,
        waits: bool,
    ) -> Result<Admission, DecisionError> {
        let key = key.as_bytes();
        match (self, waits) {
            (Self::Set(set), true) => set.acquire(key, request).await,
            (Self::Set(set), false) => set.try_acquire(key, request).await,
            (Self::Pool(pool), true) => pool.acquire(key, request).await,
            (Self::Pool(pool), false) => pool.try_acquire(key, request).await,
        }
    }

    /// What was counted, and how often each limit has refused.
    fn counted(&self) -> (Statistics, Vec<(String, u64)>) {
        match self {
            Self::Set(set) => (set.statistics(), set.refusals()),
            Self::Pool(pool) => (pool.statistics(), pool.refusals()),
        }
    }
}

impl Limiter {
    /// Opens it, as its `__init__` was told.
    ///
    /// # Errors
    /// That of the store, or of limits that make no sense; `RuntimeError` if it is open.
    pub(crate) fn begin(&self, py: Python<'_>, plan: Plan, names: Names) -> PyResult<()> {
        let opened = fork::Opened::new(plan.open(py)?);
        let open = Open {
            opened,
            ttl: plan.ttl(py),
            plan,
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

    /// What the set (of a pool: `member`) was given as `config`.
    pub(crate) fn config(&self, py: Python<'_>, member: Option<&str>) -> Py<PyAny> {
        match self.0.get().map(|open| &open.plan) {
            Some(Plan::Set(plan)) => plan.config(py),
            Some(Plan::Pool(plan)) => plan.config(py, member),
            None => py.None(),
        }
    }
}

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
        let open = limiter.open()?;
        Ok(Self {
            amounts: open.names.amounts(requested)?,
            manner: Manner::new(py, timeout, priority, ttl.or(open.ttl))?,
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
        match self.0.get().map(|open| &open.plan) {
            Some(Plan::Set(plan)) => plan.traverse(&visit),
            Some(Plan::Pool(plan)) => plan.traverse(&visit),
            None => Ok(()),
        }
    }

    fn __clear__(&self) {
        match self.0.get().map(|open| &open.plan) {
            Some(Plan::Set(plan)) => plan.clear(),
            Some(Plan::Pool(plan)) => plan.clear(),
            None => {}
        }
    }
}
