//! How a limit set is opened.

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tidegate::{Amount, Decision, DecisionError, Limit, LimitSet, LimitSetBuilder, Request};

use crate::amount::number;
use crate::awaiting::{Answer, Awaitable};
use crate::blocking;
use crate::clock::ManualClock;
use crate::error::raised;
use crate::kept::Kept;
use crate::limit;
use crate::limiter::Limiter;
use crate::named::Named;
use crate::plan::{self, Target};
use crate::request::{self, Names};
use crate::store;

/// Sets in stores of one process, where a name is opened once.
static OPENED: Named<LimitSet> = Named::new();

/// A limit set.
#[pyclass(frozen, subclass, extends = Limiter, module = "tidegate._core")]
pub(crate) struct Set;

/// What is opened.
pub(crate) struct Plan {
    limits: Vec<Limit>,
    name: Option<String>,
    store: Option<String>,
    max_waiting: Option<usize>,
    clock: Option<Py<ManualClock>>,
    config: Kept,
}

impl Plan {
    fn set(&self, py: Python<'_>) -> PyResult<LimitSet> {
        let (Some(url), Some(name)) = (&self.store, &self.name) else {
            return build(py, self.builder());
        };
        let store = store::open(py, url)?.store;
        let is_shared = store.abilities().shared;
        let open = || build(py, self.builder().name(name).store(store));
        if is_shared {
            return open();
        }
        let set = OPENED.get(py, (url, name), open)?;
        // For all who have it, the limits that were said last hold.
        if !self.limits.is_empty() {
            let replaced = py.detach(|| set.replace_limits(&self.limits));
            replaced.map_err(|error| raised(py, &error.into()))?;
        }
        Ok(set)
    }

    fn builder(&self) -> LimitSetBuilder {
        let mut builder = LimitSet::builder().limits(self.limits.iter().cloned());
        if self.limits.is_empty() {
            builder = builder.unlimited();
        }
        if let Some(most) = self.max_waiting {
            builder = builder.max_waiting(most);
        }
        match &self.clock {
            Some(clock) => builder.clock(clock.get().clock()),
            None => builder,
        }
    }
}

impl plan::Plan for Plan {
    fn open(&self, py: Python<'_>) -> PyResult<Target> {
        self.set(py).map(Target::Set)
    }

    /// As long as can be for what ends with its process, unless a limit says it.
    fn ttl(&self, _: Python<'_>) -> Option<f64> {
        let is_tied = |url: &str| match url.starts_with("shm:") {
            true => !url.contains("leases=ttl"),
            false => url.starts_with("memory:"),
        };
        let is_said = self.limits.iter().any(|limit| limit.held_for().is_some());
        let ends_with_its_process = self.store.as_deref().is_none_or(is_tied);
        (ends_with_its_process && !is_said).then_some(limit::LONGEST_TTL)
    }

    fn config(&self, py: Python<'_>, _: Option<&str>) -> Py<PyAny> {
        self.config.get(py).unwrap_or_else(|| py.None())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.config.traverse(visit)
    }

    fn clear(&self) {
        self.config.clear();
    }
}

/// Where the limits stand for `key`.
async fn look(set: &LimitSet, names: &Names, key: &str) -> Result<Decision, DecisionError> {
    let each: Vec<(&str, Amount)> = names.finite().map(|(name, _)| (name, 1)).collect();
    set.peek(key.as_bytes(), Request::named(&each)).await
}

/// The same in Python's words: dictionaries by limit.
fn standings(
    py: Python<'_>,
    names: &Names,
    looked: Result<Decision, DecisionError>,
) -> PyResult<Py<PyAny>> {
    let looked = looked.map_err(|error| raised(py, &error.into()))?;
    let standings = PyDict::new(py);
    for (name, unit) in names.finite() {
        let Some(stands) = looked.standing(name) else {
            continue;
        };
        let limit = PyDict::new(py);
        limit.set_item("capacity", number(py, unit, stands.limit)?)?;
        limit.set_item("remaining", number(py, unit, stands.remaining)?)?;
        limit.set_item("debt", number(py, unit, stands.debt)?)?;
        standings.set_item(name, limit)?;
    }
    for name in names.infinite() {
        let limit = PyDict::new(py);
        limit.set_item("capacity", f64::INFINITY)?;
        limit.set_item("remaining", f64::INFINITY)?;
        limit.set_item("debt", 0)?;
        standings.set_item(name, limit)?;
    }
    Ok(standings.into_any().unbind())
}

fn build(py: Python<'_>, builder: LimitSetBuilder) -> PyResult<LimitSet> {
    let set = py.detach(|| builder.build());
    set.map_err(|error| raised(py, &error.into()))
}

impl Set {
    /// What a set is apart from its own class.
    pub(crate) fn limiter<'a>(own: &'a Bound<'_, Self>) -> &'a Limiter {
        own.as_super().get()
    }

    /// The set, as a member of a pool.
    pub(crate) fn member(own: &Bound<'_, Self>) -> PyResult<LimitSet> {
        match Self::limiter(own).target(own.py())? {
            Target::Set(set) => Ok(set),
            Target::Pool(_) => unreachable!("a set begins as a set"),
        }
    }
}

#[pymethods]
impl Set {
    /// Whatever its subclass is given, `__init__` opens it.
    #[new]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(
        _arguments: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> PyClassInitializer<Self> {
        PyClassInitializer::from(Limiter::default()).add_subclass(Self)
    }

    #[pyo3(signature = (limits, *, infinite, rates, refunded, name=None, store=None, config, strict_updates, max_waiting=None, clock=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "those of the Python class above it"
    )]
    fn __init__(
        slf: &Bound<'_, Self>,
        limits: Vec<Bound<'_, PyAny>>,
        infinite: Vec<String>,
        rates: Vec<String>,
        refunded: Vec<String>,
        name: Option<String>,
        store: Option<String>,
        config: Py<PyAny>,
        strict_updates: bool,
        #[pyo3(from_py_with = request::max_waiting)] max_waiting: Option<usize>,
        clock: Option<Py<ManualClock>>,
    ) -> PyResult<()> {
        let limits = limits.iter().map(limit::limit);
        let limits = limits.collect::<PyResult<Vec<_>>>()?;
        let is_reported = |limit: &str| strict_updates && rates.iter().any(|name| name == limit);
        let names = Names::new(slf.py(), &limits, infinite, is_reported, &refunded);
        let plan = Plan {
            limits,
            name,
            store,
            max_waiting,
            clock,
            config: Kept::new(config),
        };
        Self::limiter(slf).begin(slf.py(), plan, names)
    }

    /// Where each limit stands for a key; takes nothing.
    #[pyo3(signature = (*, key="default"))]
    fn peek(slf: &Bound<'_, Self>, key: &str) -> PyResult<Py<PyAny>> {
        let (set, names) = (Self::member(slf)?, Self::limiter(slf).names()?);
        let looked = blocking::wait(slf.py(), look(&set, names, key))?;
        standings(slf.py(), names, looked)
    }

    #[pyo3(signature = (*, key="default"))]
    fn async_peek(slf: &Bound<'_, Self>, key: &str) -> PyResult<Awaitable> {
        let (set, key) = (Self::member(slf)?, key.to_owned());
        let own = slf.as_super().clone().unbind();
        Ok(Awaitable::new(async move {
            let looked = match own.get().names() {
                Ok(names) => Ok(look(&set, names, &key).await),
                Err(error) => Err(error),
            };
            let answer: Answer = Box::new(move |py| standings(py, own.get().names()?, looked?));
            answer
        }))
    }
}
