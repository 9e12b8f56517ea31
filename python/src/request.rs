//! What an acquisition asks for.

use std::time::Duration;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use smallvec::SmallVec;
use tidegate::{Amount, Limit, Request, Unit};

use crate::amount::{amount, check};
use crate::error::invalid;
use crate::limit::duration;

/// A limit that is not infinite, as requests name it.
#[derive(Debug)]
struct Named {
    name: String,
    /// The name as Python has it: most dictionaries have this very object.
    text: Py<PyString>,
    unit: Unit,
    /// It comes back when its holder ends, and nobody can tell when that is.
    is_held: bool,
    /// Its use is to be reported before the end.
    is_reported: bool,
    /// What was taken of it comes back if the work fails.
    is_refunded: bool,
}

/// The names and units of a set's limits; an infinite one takes anything.
#[derive(Debug, Default)]
pub(crate) struct Names {
    limits: Vec<Named>,
    infinite: Vec<String>,
}

impl Names {
    /// Of those that `is_reported`, an acquisition reports the use; what was taken of the `refunded`
    /// comes back if its work fails.
    pub(crate) fn new(
        py: Python<'_>,
        limits: &[Limit],
        infinite: Vec<String>,
        is_reported: impl Fn(&str) -> bool,
        refunded: &[String],
    ) -> Self {
        let limits = limits.iter().map(|limit| Named {
            name: limit.name().to_owned(),
            text: PyString::intern(py, limit.name()).unbind(),
            unit: limit.amounts(),
            is_held: limit.is_concurrency(),
            is_reported: is_reported(limit.name()),
            is_refunded: refunded.iter().any(|name| name == limit.name()),
        });
        let limits = limits.collect();
        Self { limits, infinite }
    }

    /// Those of several sets in one.
    ///
    /// # Errors
    /// `InvalidRequest`: an amount of a limit, or its end, means one thing in one set and another in
    /// another.
    pub(crate) fn of_all<'a>(
        py: Python<'_>,
        sets: impl Iterator<Item = &'a Self>,
    ) -> PyResult<Self> {
        let mut all = Self::default();
        for set in sets {
            for limit in &set.limits {
                match all.limits.iter().find(|known| known.name == limit.name) {
                    None => all.limits.push(limit.copy(py)),
                    Some(known) => {
                        if let Some(words) = limit.differs(known) {
                            return Err(invalid(py, format!("limit {:?} {words}", limit.name)));
                        }
                    }
                }
            }
            let new = set
                .infinite
                .iter()
                .filter(|name| !all.infinite.contains(name));
            let new: Vec<String> = new.cloned().collect();
            all.infinite.extend(new);
        }
        let mut limits = all.limits.iter();
        match limits.find(|limit| all.infinite.contains(&limit.name)) {
            None => Ok(all),
            Some(both) => {
                let words = "is infinite in one set and not in another";
                Err(invalid(py, format!("limit {:?} {words}", both.name)))
            }
        }
    }

    /// Of those that come back if the work fails and of which no use is reported: that there was
    /// none.
    pub(crate) fn refunded<'n>(&'n self, used: &[(&'n str, u64)]) -> Vec<(&'n str, u64)> {
        let of = self.limits.iter().filter(|limit| limit.is_refunded);
        let of = of.map(|limit| limit.name.as_str());
        let unreported = of.filter(|name| used.iter().all(|(known, _)| known != name));
        unreported.map(|name| (name, 0)).collect()
    }

    pub(crate) fn infinite(&self) -> &[String] {
        &self.infinite
    }

    /// The names and units of those that are not infinite.
    pub(crate) fn finite(&self) -> impl Iterator<Item = (&str, Unit)> {
        let limits = self.limits.iter();
        limits.map(|limit| (limit.name.as_str(), limit.unit))
    }

    fn limit(&self, name: &str) -> Option<&Named> {
        self.limits.iter().find(|limit| limit.name == name)
    }

    /// Whether a limit is of what is held.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.limit(name).is_some_and(|limit| limit.is_held)
    }

    /// The unit of a limit that is not infinite.
    pub(crate) fn unit(&self, name: &str) -> Option<Unit> {
        Some(self.limit(name)?.unit)
    }

    /// A rate that was taken and of which no use was reported, though it is to be.
    pub(crate) fn unreported(&self, taken: &Amounts, used: &Amounts) -> Option<&str> {
        let mut taken = taken.0.iter().filter(|(_, amount)| *amount > 0);
        let missing = taken.find(|(position, _)| {
            self.limits[*position].is_reported && !used.0.iter().any(|(used, _)| used == position)
        });
        missing.map(|(position, _)| self.limits[*position].name.as_str())
    }

    /// The amounts of a dictionary, by the positions of their limits.
    ///
    /// # Errors
    /// `InvalidRequest`: an unknown name, no amount.
    pub(crate) fn amounts(&self, given: Option<&Bound<'_, PyAny>>) -> PyResult<Amounts> {
        let mut amounts = Amounts::default();
        let given = given.map(dictionary).transpose()?;
        for (name, number) in given.into_iter().flatten() {
            match self.position(&name)? {
                Some(position) => {
                    let Named { name, unit, .. } = &self.limits[position];
                    amounts.0.push((position, amount(name, *unit, &number)?));
                }
                None => {
                    let name = name.cast::<PyString>()?.to_cow()?;
                    if !self.infinite.iter().any(|known| *known == name) {
                        return Err(self.unknown(number.py(), &name));
                    }
                    check(&name, &number)?;
                }
            }
        }
        Ok(amounts)
    }

    fn position(&self, name: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let is_same = |limit: &Named| limit.text.is(name);
        if let Some(position) = self.limits.iter().position(is_same) {
            return Ok(Some(position));
        }
        let name = name.cast::<PyString>()?.to_cow()?;
        Ok(self.limits.iter().position(|limit| limit.name == name))
    }

    fn unknown(&self, py: Python<'_>, name: &str) -> PyErr {
        let known = self.limits.iter().map(|limit| &limit.name);
        let known: Vec<&str> = known.chain(&self.infinite).map(String::as_str).collect();
        let words = format!("no limit {name:?}; there are {}", known.join(", "));
        invalid(py, words)
    }

    /// The amounts with their names.
    pub(crate) fn named<'a>(&'a self, amounts: &Amounts) -> SmallVec<[(&'a str, Amount); 4]> {
        let amounts = amounts.0.iter();
        amounts
            .map(|&(position, amount)| (self.limits[position].name.as_str(), amount))
            .collect()
    }
}

impl Named {
    /// What a pool cannot bring together: whichever of its sets grants, its limits are read in one way.
    fn differs(&self, other: &Self) -> Option<&'static str> {
        if self.unit != other.unit {
            return Some(
                "counts in other decimal places in another set; give both the same `places`",
            );
        }
        if self.is_reported != other.is_reported {
            return Some(
                "is to be reported in one set and not in another; give both the same `strict_updates`",
            );
        }
        if self.is_refunded != other.is_refunded {
            return Some(
                "comes back after a failure in one set and not in another; give both the same \
                 `refund_on_failure`",
            );
        }
        None
    }

    fn copy(&self, py: Python<'_>) -> Self {
        Self {
            name: self.name.clone(),
            text: self.text.clone_ref(py),
            ..*self
        }
    }
}

/// Any mapping, as a dictionary.
pub(crate) fn dictionary<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    if let Ok(dictionary) = given.cast::<PyDict>() {
        return Ok(dictionary.clone());
    }
    let py = given.py();
    if given.hasattr("keys")? {
        let made = py.get_type::<PyDict>().call1((given,))?;
        return Ok(made.cast_into()?);
    }
    let words = "amounts are written by limit, as {\"tokens\": 4000}";
    Err(invalid(py, words))
}

/// Amounts by the positions of their limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amounts(SmallVec<[(usize, Amount); 4]>);

impl Amounts {
    /// Those of `later` in place of these.
    pub(crate) fn update(&mut self, later: Self) {
        for (position, amount) in later.0 {
            match self.0.iter_mut().find(|(known, _)| *known == position) {
                Some((_, before)) => *before = amount,
                None => self.0.push((position, amount)),
            }
        }
    }
}

/// How long a request waits; `None` for as long as it takes. A deadline that has passed is no
/// time left.
pub(crate) fn within(py: Python<'_>, timeout: Option<f64>) -> PyResult<Duration> {
    match timeout {
        None => Ok(Duration::MAX),
        Some(seconds) if seconds < 0.0 => Ok(Duration::ZERO),
        Some(seconds) => duration(py, seconds),
    }
}

/// How many slots.
///
/// # Errors
/// `InvalidRequest`: negative, or beyond any number of slots.
pub(crate) fn slots(given: &Bound<'_, PyAny>) -> PyResult<Amount> {
    count("slots", given)
}

/// How many may wait, if that is said.
///
/// # Errors
/// `InvalidRequest`: negative, or beyond any number of requests.
pub(crate) fn max_waiting(given: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    match given.is_none() {
        true => Ok(None),
        false => {
            let most = count("max_waiting", given)?;
            Ok(Some(usize::try_from(most).unwrap_or(usize::MAX)))
        }
    }
}

/// A whole number of 0 or more; what is no whole number stays a `TypeError`.
fn count(name: &str, given: &Bound<'_, PyAny>) -> PyResult<u64> {
    given.extract().map_err(|error: PyErr| {
        let py = given.py();
        match error.is_instance_of::<PyOverflowError>(py) {
            true => invalid(
                py,
                format!("{name}: a whole number of 0 or more is needed, not {given}"),
            ),
            false => error,
        }
    })
}

/// A priority.
pub(crate) fn one_of_256(py: Python<'_>, priority: i64) -> PyResult<u8> {
    let told = |_| invalid(py, format!("a priority is 0 to 255, not {priority}"));
    u8::try_from(priority).map_err(told)
}

/// How it is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    within: Duration,
    priority: u8,
    ttl: Option<Duration>,
}

impl Manner {
    /// `timeout`: seconds; `None` for as long as it takes.
    ///
    /// # Errors
    /// `InvalidRequest`: a negative number of seconds.
    pub(crate) fn new(
        py: Python<'_>,
        timeout: Option<f64>,
        priority: i64,
        ttl: Option<f64>,
    ) -> PyResult<Self> {
        let (within, priority) = (within(py, timeout)?, one_of_256(py, priority)?);
        let ttl = ttl.map(|seconds| duration(py, seconds)).transpose()?;
        Ok(Self {
            within,
            priority,
            ttl,
        })
    }

    /// For how long a lease is asked for, if that is said.
    pub(crate) const fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    pub(crate) fn request<'a>(&self, named: &'a [(&'a str, Amount)]) -> Request<'a> {
        let request = Request::named(named)
            .within(self.within)
            .priority(self.priority)
            .standings();
        match self.ttl {
            Some(ttl) => request.ttl(ttl),
            None => request,
        }
    }
}
