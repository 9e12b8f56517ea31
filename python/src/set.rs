//! A limit set: its verbs, on a thread and awaited.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::{Admission, DecisionError, Limit, LimitSet};

use crate::acquisition::{Acquisition, Terms, retry_after};
use crate::amount::number;
use crate::awaiting::{Answer, Awaitable};
use crate::blocking;
use crate::error::{exception, raised};
use crate::fork;
use crate::limit;
use crate::request::{self, Amounts, Names};
use crate::store;

/// Who is limited unless an acquisition says it.
pub(crate) const KEY: &str = "default";

/// A limit set.
#[pyclass(frozen, subclass, module = "tidegate._core")]
pub(crate) struct Set {
    opened: fork::Opened<LimitSet>,
    plan: Plan,
    pub(crate) terms: Arc<Terms>,
}

/// What is opened.
struct Plan {
    limits: Vec<Limit>,
    name: Option<String>,
    store: Option<String>,
    max_waiting: Option<usize>,
}

impl Plan {
    fn open(&self, py: Python<'_>) -> PyResult<LimitSet> {
        let mut builder = LimitSet::builder().limits(self.limits.iter().cloned());
        if self.limits.is_empty() {
            builder = builder.unlimited();
        }
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        if let Some(url) = &self.store {
            builder = builder.store(store::open(py, url)?.store);
        }
        if let Some(most) = self.max_waiting {
            builder = builder.max_waiting(most);
        }
        let set = py.detach(|| builder.build());
        set.map_err(|error| raised(py, &error.into()))
    }

    /// Whether what a process holds comes back when it ends.
    fn ends_with_its_process(&self) -> bool {
        let is_tied = |url: &str| url.starts_with("shm:") && !url.contains("leases=ttl");
        self.is_of_its_process() || self.store.as_deref().is_some_and(is_tied)
    }

    /// Whether a forked child has what its parent opened: a copy of its memory.
    fn is_of_its_process(&self) -> bool {
        let store = self.store.as_deref();
        store.is_none_or(|url| url.starts_with("memory:"))
    }
}

/// 400 days, in seconds.
const LONGEST_TTL: f64 = 34_560_000.0;

impl Set {
    /// The set; in a forked child, opened anew if its state is not in this process.
    pub(crate) fn set(&self, py: Python<'_>) -> PyResult<LimitSet> {
        let is_of_its_process = self.plan.is_of_its_process();
        self.opened.get(is_of_its_process, || self.plan.open(py))
    }
}

/// Where verbs lead: a set or a pool.
pub(crate) trait Target: Clone + Send + Sync + 'static {
    fn acquire(
        &self,
        key: &str,
        request: tidegate::Request<'_>,
    ) -> impl Future<Output = Result<Admission, DecisionError>> + Send;
    fn try_acquire(
        &self,
        key: &str,
        request: tidegate::Request<'_>,
    ) -> impl Future<Output = Result<Admission, DecisionError>> + Send;
}

impl Target for LimitSet {
    async fn acquire(
        &self,
        key: &str,
        request: tidegate::Request<'_>,
    ) -> Result<Admission, DecisionError> {
        self.acquire(key.as_bytes(), request).await
    }

    async fn try_acquire(
        &self,
        key: &str,
        request: tidegate::Request<'_>,
    ) -> Result<Admission, DecisionError> {
        self.try_acquire(key.as_bytes(), request).await
    }
}

/// One acquisition, as it is asked for.
pub(crate) struct Asked {
    pub(crate) key: String,
    pub(crate) amounts: Amounts,
    pub(crate) terms: request::Terms,
    /// Whether it waits; else a refusal is an answer.
    pub(crate) waits: bool,
}

impl Asked {
    async fn run<T: Target>(&self, target: &T, terms: &Terms) -> Result<Admission, DecisionError> {
        let named = terms.names.named(&self.amounts);
        let request = self.terms.request(&named);
        match self.waits {
            true => target.acquire(&self.key, request).await,
            false => target.try_acquire(&self.key, request).await,
        }
    }

    /// What was answered, in Python's words: who waits is granted or raises.
    fn answer(
        self,
        py: Python<'_>,
        terms: Arc<Terms>,
        admission: Result<Admission, DecisionError>,
    ) -> PyResult<Acquisition> {
        let admission = admission.map_err(|error| raised(py, &error.into()))?;
        if let Admission::Refused(decision) = &admission {
            let limit = decision.binding().map(str::to_owned);
            if decision.is_never() {
                let capacity = decision.most_at_once().zip(limit.as_deref());
                let shown = capacity
                    .and_then(|(most, name)| number(py, terms.names.unit(name)?, most).ok());
                let words = match (&limit, &shown) {
                    (Some(limit), Some(most)) => {
                        format!("limit {limit:?} never grants more than {most} at once")
                    }
                    _ => "it is more than a limit ever grants".to_owned(),
                };
                return Err(exception(py, "ImpossibleRequest", (words, limit, shown)));
            }
            if self.waits {
                let retry_after = retry_after(decision, &terms.names);
                let by = limit
                    .as_ref()
                    .map(|limit| format!(" by limit {limit:?}"))
                    .unwrap_or_default();
                let again = retry_after
                    .map(|wait| format!("; retry after {wait} s"))
                    .unwrap_or_default();
                let words = format!("not granted in time{by}{again}");
                return Err(exception(py, "AcquireTimeout", (words, limit, retry_after)));
            }
        }
        Ok(Acquisition::new(terms, self.amounts, admission))
    }

    pub(crate) fn wait<T: Target>(
        self,
        py: Python<'_>,
        target: &T,
        terms: &Arc<Terms>,
    ) -> PyResult<Acquisition> {
        let admission = blocking::wait(py, self.run(target, terms))?;
        self.answer(py, Arc::clone(terms), admission)
    }

    pub(crate) fn later<T: Target>(self, target: &T, terms: &Arc<Terms>) -> Awaitable {
        let (target, terms) = (target.clone(), Arc::clone(terms));
        Awaitable::new(async move {
            let admission = self.run(&target, &terms).await;
            let answer: Answer = Box::new(move |py| {
                let acquisition = self.answer(py, terms, admission)?;
                Ok(Py::new(py, acquisition)?.into_any())
            });
            answer
        })
    }
}

#[pymethods]
impl Set {
    #[new]
    #[pyo3(signature = (limits, *, infinite, rates, name=None, store=None, config, strict_updates, max_waiting=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "those of the Python class above it"
    )]
    fn new(
        py: Python<'_>,
        limits: Vec<Bound<'_, PyAny>>,
        infinite: Vec<String>,
        rates: Vec<String>,
        name: Option<String>,
        store: Option<String>,
        config: Py<PyAny>,
        strict_updates: bool,
        max_waiting: Option<usize>,
    ) -> PyResult<Self> {
        let limits = limits
            .iter()
            .map(limit::limit)
            .collect::<PyResult<Vec<_>>>()?;
        let names = Names::new(&limits, infinite);
        let reported = limits.iter().enumerate();
        let reported = reported
            .filter(|(_, limit)| strict_updates && rates.iter().any(|name| name == limit.name()));
        let reported = reported.map(|(position, _)| position).collect();
        let plan = Plan {
            limits,
            name,
            store,
            max_waiting,
        };
        let configs = vec![(None, config)];
        // What ends with its process needs no end of its own, unless a limit says one.
        let is_said = plan.limits.iter().any(|limit| limit.held_for().is_some());
        let ends_with_its_process = plan.ends_with_its_process() && !is_said;
        let terms = Terms {
            names,
            reported,
            configs,
            is_of_its_process: plan.is_of_its_process(),
            ttl: ends_with_its_process.then_some(LONGEST_TTL),
        };
        Ok(Self {
            opened: fork::Opened::new(plan.open(py)?),
            plan,
            terms: Arc::new(terms),
        })
    }

    #[pyo3(signature = (requested=None, timeout=None, priority=0, *, key=KEY, ttl=None))]
    fn acquire(
        &self,
        py: Python<'_>,
        requested: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        priority: i64,
        key: &str,
        ttl: Option<f64>,
    ) -> PyResult<Acquisition> {
        let asked = asked(
            py,
            &self.terms,
            (requested, key),
            (timeout, priority, ttl),
            true,
        )?;
        asked.wait(py, &self.set(py)?, &self.terms)
    }

    #[pyo3(signature = (requested=None, priority=0, *, key=KEY, ttl=None))]
    fn try_acquire(
        &self,
        py: Python<'_>,
        requested: Option<&Bound<'_, PyAny>>,
        priority: i64,
        key: &str,
        ttl: Option<f64>,
    ) -> PyResult<Acquisition> {
        let asked = asked(
            py,
            &self.terms,
            (requested, key),
            (None, priority, ttl),
            false,
        )?;
        asked.wait(py, &self.set(py)?, &self.terms)
    }

    #[pyo3(signature = (requested=None, timeout=None, priority=0, *, key=KEY, ttl=None))]
    fn async_acquire(
        &self,
        py: Python<'_>,
        requested: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        priority: i64,
        key: &str,
        ttl: Option<f64>,
    ) -> PyResult<Awaitable> {
        let asked = asked(
            py,
            &self.terms,
            (requested, key),
            (timeout, priority, ttl),
            true,
        )?;
        Ok(asked.later(&self.set(py)?, &self.terms))
    }

    #[pyo3(signature = (requested=None, priority=0, *, key=KEY, ttl=None))]
    fn async_try_acquire(
        &self,
        py: Python<'_>,
        requested: Option<&Bound<'_, PyAny>>,
        priority: i64,
        key: &str,
        ttl: Option<f64>,
    ) -> PyResult<Awaitable> {
        let asked = asked(
            py,
            &self.terms,
            (requested, key),
            (None, priority, ttl),
            false,
        )?;
        Ok(asked.later(&self.set(py)?, &self.terms))
    }

    /// What was counted since the set was made.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let set = self.set(py)?;
        let counted = set.statistics();
        let refusals = PyDict::new(py);
        for (limit, number) in set.refusals() {
            refusals.set_item(limit, number)?;
        }
        statistics(py, &counted, &refusals)
    }
}

pub(crate) fn statistics<'py>(
    py: Python<'py>,
    counted: &tidegate::Statistics,
    refusals: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let stats = PyDict::new(py);
    let numbers = [
        ("admitted", counted.admitted),
        ("refused", counted.refused),
        ("waited", counted.waited),
        ("timed_out", counted.timed_out),
        ("abandoned", counted.abandoned),
        ("waiting", counted.waiting),
        ("succeeded", counted.succeeded),
        ("ignored", counted.ignored),
        ("dropped", counted.dropped),
    ];
    for (name, number) in numbers {
        stats.set_item(name, number)?;
    }
    stats.set_item("total_wait", counted.total_wait.as_secs_f64())?;
    stats.set_item("longest_wait", counted.longest_wait.as_secs_f64())?;
    stats.set_item("refusals", refusals)?;
    Ok(stats)
}

pub(crate) fn asked(
    py: Python<'_>,
    terms: &Terms,
    (requested, key): (Option<&Bound<'_, PyAny>>, &str),
    (timeout, priority, ttl): (Option<f64>, i64, Option<f64>),
    waits: bool,
) -> PyResult<Asked> {
    Ok(Asked {
        key: key.to_owned(),
        amounts: terms.names.amounts(requested)?,
        terms: request::Terms::new(py, timeout, priority, ttl.or(terms.ttl))?,
        waits,
    })
}
