//! How a pool of limit sets is opened.

use std::sync::Arc;

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tidegate::{Balance, Balancer, LimitPool, Member};

use crate::blocking;
use crate::error::{invalid, raised};
use crate::kept::Kept;
use crate::limit::duration;
use crate::limiter::Limiter;
use crate::plan::{self, Target};
use crate::request::Names;
use crate::set::Set;

/// A pool of limit sets.
#[pyclass(frozen, subclass, extends = Limiter, module = "tidegate._core")]
pub(crate) struct Pool;

/// What is opened.
pub(crate) struct Plan {
    members: Vec<(String, Py<Set>)>,
    weights: Vec<u32>,
    balance: String,
    balancer: Option<Arc<Kept>>,
    offset: u64,
}

/// The words for a balancer.
const BALANCES: &str = "round_robin, random, least_loaded, first_available, weighted";

impl Plan {
    /// In a forked child, made anew of its sets, which may have been.
    fn pool(&self, py: Python<'_>) -> PyResult<LimitPool> {
        let mut builder = LimitPool::builder();
        for ((name, member), weight) in self.members.iter().zip(&self.weights) {
            builder = builder.weighted(name, Set::member(member.bind(py))?, *weight);
        }
        let builder = match (&self.balancer, self.balance.as_str()) {
            (Some(called), _) => builder.balancer(Called(Arc::clone(called))),
            (None, "round_robin") => builder.balance(Balance::RoundRobin),
            (None, "random") => builder.balance(Balance::Random),
            (None, "least_loaded") => builder.balance(Balance::LeastLoaded),
            (None, "first_available") => builder.balance(Balance::FirstAvailable),
            (None, "weighted") => builder.balance(Balance::Weighted),
            (None, word) => {
                return Err(invalid(
                    py,
                    format!("no load balancing {word:?}; there are {BALANCES}"),
                ));
            }
        };
        let pool = builder.build().map_err(|error| raised(py, &error.into()))?;
        Ok(pool.with_offset(self.offset))
    }
}

impl plan::Plan for Plan {
    fn open(&self, py: Python<'_>) -> PyResult<Target> {
        self.pool(py).map(Target::Pool)
    }

    /// That of its sets, if all have one.
    fn ttl(&self, py: Python<'_>) -> Option<f64> {
        let members = self.members.iter();
        let ttls = members.map(|(_, set)| Set::limiter(set.bind(py)).ttl());
        ttls.reduce(|one, other| one.and(other)).flatten()
    }

    fn config(&self, py: Python<'_>, member: Option<&str>) -> Py<PyAny> {
        let mut members = self.members.iter();
        let found = members.find(|(name, _)| Some(name.as_str()) == member);
        found.map_or_else(
            || py.None(),
            |(_, set)| Set::limiter(set.bind(py)).config(py, None),
        )
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for (_, member) in &self.members {
            visit.call(member)?;
        }
        self.balancer
            .iter()
            .try_for_each(|kept| kept.traverse(visit))
    }

    fn clear(&self) {
        self.balancer.iter().for_each(|kept| kept.clear());
    }
}

/// A balancer written in Python: called with the loads of the members and the turn, answers
/// positions in the order in which they are tried.
struct Called(Arc<Kept>);

impl Called {
    fn answer(&self, loads: Vec<u64>, turn: u64) -> Option<Vec<usize>> {
        Python::attach(|py| {
            let called = self.0.get(py)?;
            let order = called.call1(py, (loads, turn));
            let order = order.and_then(|order| order.extract::<Vec<usize>>(py));
            let order = order.map_err(|error| match error.is_instance_of::<PyException>(py) {
                true => error.write_unraisable(py, Some(called.bind(py))),
                // Ctrl-C is no error of the balancer's.
                false => blocking::raise(error),
            });
            order.ok()
        })
    }
}

impl Balancer for Called {
    fn order(&self, members: &mut [&Member], turn: u64) {
        let before: Vec<&Member> = members.to_vec();
        let loads = before.iter().map(|member| member.load()).collect();
        let Some(order) = self.answer(loads, turn) else {
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

#[pymethods]
impl Pool {
    /// Whatever its subclass is given, `__init__` opens it.
    #[new]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(
        _arguments: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> PyClassInitializer<Self> {
        PyClassInitializer::from(Limiter::default()).add_subclass(Self)
    }

    #[pyo3(signature = (members, *, weights, balance, balancer=None, offset=0))]
    fn __init__(
        slf: &Bound<'_, Self>,
        members: Vec<(String, Py<Set>)>,
        weights: Vec<u32>,
        balance: String,
        balancer: Option<Py<PyAny>>,
        offset: u64,
    ) -> PyResult<()> {
        let py = slf.py();
        let sets = members.iter().map(|(_, set)| Set::limiter(set.bind(py)));
        let sets: Vec<&Limiter> = sets.collect();
        let names = sets.iter().map(|set| set.names());
        let names = names.collect::<PyResult<Vec<_>>>()?;
        let names = Names::of_all(py, names.into_iter())?;
        let plan = Plan {
            members,
            weights,
            balance,
            balancer: balancer.map(|called| Arc::new(Kept::new(called))),
            offset,
        };
        slf.as_super().get().begin(py, plan, names)
    }

    /// Passes over a member for so many seconds: its provider refused it.
    fn cool_down(slf: &Bound<'_, Self>, member: &str, seconds: f64) -> PyResult<()> {
        let py = slf.py();
        let seconds = duration(py, seconds)?;
        let Target::Pool(pool) = slf.as_super().get().target(py)? else {
            return Err(PyTypeError::new_err("it is no pool"));
        };
        let cooled = pool.cool_down(member, seconds);
        cooled.map(drop).map_err(|error| raised(py, &error.into()))
    }
}
