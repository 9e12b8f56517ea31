//! A pool of limit sets.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::{Admission, Balance, Balancer, DecisionError, Limit, LimitPool, Member};

use crate::acquisition::{Acquisition, Terms};
use crate::awaiting::Awaitable;
use crate::error::{invalid, raised};
use crate::fork;
use crate::limit::duration;
use crate::request::Names;
use crate::set::{KEY, Set, Target, asked, statistics};

/// A pool of limit sets.
#[pyclass(frozen, subclass, module = "tidegate._core")]
pub(crate) struct Pool {
    opened: fork::Opened<LimitPool>,
    plan: Plan,
    terms: Arc<Terms>,
}

/// What is opened.
struct Plan {
    members: Vec<(String, Py<Set>)>,
    weights: Vec<u32>,
    balance: String,
    balancer: Option<Py<PyAny>>,
    offset: u64,
}

impl Plan {
    fn open(&self, py: Python<'_>) -> PyResult<LimitPool> {
        let mut builder = LimitPool::builder();
        for ((name, member), weight) in self.members.iter().zip(&self.weights) {
            builder = builder.weighted(name, member.get().set(py)?, *weight);
        }
        let builder = match (&self.balancer, self.balance.as_str()) {
            (Some(called), _) => builder.balancer(Called(called.clone_ref(py))),
            (None, "round_robin") => builder.balance(Balance::RoundRobin),
            (None, "random") => builder.balance(Balance::Random),
            (None, "least_loaded") => builder.balance(Balance::LeastLoaded),
            (None, "first_available") => builder.balance(Balance::FirstAvailable),
            (None, "weighted") => builder.balance(Balance::Weighted),
            (None, word) => return Err(invalid(py, format!("no load balancing {word:?}"))),
        };
        let pool = builder.build().map_err(|error| raised(py, &error.into()))?;
        Ok(pool.with_offset(self.offset))
    }
}

impl Pool {
    /// The pool; in a forked child, made anew of its sets, which may have been.
    fn pool(&self, py: Python<'_>) -> PyResult<LimitPool> {
        self.opened.get(false, || self.plan.open(py))
    }
}

impl Target for LimitPool {
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

/// A balancer written in Python: called with the positions of the members and the turn,
/// answers positions in the order in which they are tried.
struct Called(Py<PyAny>);

impl Balancer for Called {
    fn order(&self, members: &mut [&Member], turn: u64) {
        let before: Vec<&Member> = members.to_vec();
        let order = Python::attach(|py| {
            let loads: Vec<u64> = before.iter().map(|member| member.load()).collect();
            let order = self
                .0
                .call1(py, (loads, turn))
                .and_then(|order| order.extract::<Vec<usize>>(py));
            order.map_err(|error| error.write_unraisable(py, Some(self.0.bind(py))))
        });
        let Ok(order) = order else {
            return;
        };
        let mut next = 0;
        let mut is_placed = vec![false; before.len()];
        let rest = 0..before.len();
        for position in order.into_iter().chain(rest) {
            if is_placed.get(position) == Some(&false) {
                is_placed[position] = true;
                members[next] = before[position];
                next += 1;
            }
        }
    }
}

/// An amount of a limit is one of every set that has the limit.
fn check_units(py: Python<'_>, one: &Limit, other: &Limit) -> PyResult<()> {
    match one.amounts() == other.amounts() {
        true => Ok(()),
        false => Err(invalid(
            py,
            format!(
                "limit {:?} counts in other decimal places in another set; give both the same `places`",
                one.name()
            ),
        )),
    }
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (members, *, weights, balance, balancer=None, offset=0))]
    fn new(
        py: Python<'_>,
        members: Vec<(String, Py<Set>)>,
        weights: Vec<u32>,
        balance: String,
        balancer: Option<Py<PyAny>>,
        offset: u64,
    ) -> PyResult<Self> {
        let mut limits: Vec<Limit> = Vec::new();
        let (mut infinite, mut configs, mut reported) = (Vec::new(), Vec::new(), Vec::new());
        for (name, member) in &members {
            let terms = &member.get().terms;
            for (position, limit) in member.get().set(py)?.limits().into_iter().enumerate() {
                if let Some(known) = limits.iter().find(|known| known.name() == limit.name()) {
                    check_units(py, known, &limit)?;
                } else {
                    reported.extend(terms.reported.contains(&position).then_some(limits.len()));
                    limits.push(limit);
                }
            }
            infinite.extend(terms.names.infinite().iter().cloned());
            let config = terms.configs.first();
            configs.extend(config.map(|(_, config)| (Some(name.clone()), config.clone_ref(py))));
        }
        if let Some(both) = limits
            .iter()
            .find(|limit| infinite.iter().any(|name| name == limit.name()))
        {
            let words = format!(
                "limit {:?} is infinite in one set and not in another",
                both.name()
            );
            return Err(invalid(py, words));
        }
        let ttls = members.iter().map(|(_, member)| member.get().terms.ttl);
        let ttl = ttls.reduce(|one, other| one.and(other)).flatten();
        let mut processes = members.iter().map(|(_, member)| &member.get().terms);
        let is_of_its_process = processes.all(|terms| terms.is_of_its_process);
        let plan = Plan {
            members,
            weights,
            balance,
            balancer,
            offset,
        };
        Ok(Self {
            opened: fork::Opened::new(plan.open(py)?),
            plan,
            terms: Arc::new(Terms {
                names: Names::new(&limits, infinite),
                reported,
                configs,
                is_of_its_process,
                ttl,
            }),
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
        asked.wait(py, &self.pool(py)?, &self.terms)
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
        asked.wait(py, &self.pool(py)?, &self.terms)
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
        Ok(asked.later(&self.pool(py)?, &self.terms))
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
        Ok(asked.later(&self.pool(py)?, &self.terms))
    }

    /// Passes over a member for so many seconds: its provider refused it.
    fn cool_down(&self, py: Python<'_>, member: &str, seconds: f64) -> PyResult<()> {
        let cooled = self.pool(py)?.cool_down(member, duration(py, seconds)?);
        cooled.map(drop).map_err(|error| raised(py, &error.into()))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pool = self.pool(py)?;
        let counted = pool.statistics();
        let refusals = PyDict::new(py);
        for (limit, number) in pool.refusals() {
            refusals.set_item(limit, number)?;
        }
        statistics(py, &counted, &refusals)
    }
}
