//! What an acquisition asks for.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tidegate::{Amount, Limit, Request, Unit};

use crate::amount::amount;
use crate::error::invalid;
use crate::limit::duration;

/// The names and units of a set's limits; an infinite one takes anything.
#[derive(Debug, Default)]
pub(crate) struct Names {
    limits: Vec<(String, Unit)>,
    infinite: Vec<String>,
    /// Those that are held, and so come back when nobody can tell.
    held: Vec<String>,
}

impl Names {
    pub(crate) fn new(limits: &[Limit], infinite: Vec<String>) -> Self {
        let held = limits.iter().filter(|limit| limit.is_concurrency());
        Self {
            held: held.map(|limit| limit.name().to_owned()).collect(),
            limits: limits
                .iter()
                .map(|limit| (limit.name().to_owned(), limit.amounts()))
                .collect(),
            infinite,
        }
    }

    pub(crate) fn infinite(&self) -> &[String] {
        &self.infinite
    }

    /// Whether a limit is of what is held.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.held.iter().any(|held| held == name)
    }

    /// The name of the limit at `position`.
    pub(crate) fn name(&self, position: usize) -> &str {
        &self.limits[position].0
    }

    /// The unit of a limit that is not infinite.
    pub(crate) fn unit(&self, name: &str) -> Option<Unit> {
        let mut limits = self.limits.iter();
        Some(limits.find(|(known, _)| known == name)?.1)
    }

    /// The amounts of a dictionary, by the positions of their limits.
    ///
    /// # Errors
    /// `InvalidRequest`: an unknown name, no amount.
    pub(crate) fn amounts(&self, given: Option<&Bound<'_, PyAny>>) -> PyResult<Amounts> {
        let mut amounts = Amounts::default();
        let given = given.map(dictionary).transpose()?;
        for (name, number) in given.into_iter().flatten() {
            let name = name.cast::<PyString>()?.to_cow()?;
            let name = name.as_ref();
            match self.limits.iter().position(|(known, _)| known == name) {
                Some(position) => {
                    let unit = self.limits[position].1;
                    amounts.0.push((position, amount(name, unit, &number)?));
                }
                None if self.infinite.iter().any(|known| known == name) => {}
                None => return Err(self.unknown(number.py(), name)),
            }
        }
        Ok(amounts)
    }

    fn unknown(&self, py: Python<'_>, name: &str) -> PyErr {
        let known = self.limits.iter().map(|(name, _)| name);
        let known: Vec<&str> = known.chain(&self.infinite).map(String::as_str).collect();
        invalid(
            py,
            format!("no limit {name:?}; there are {}", known.join(", ")),
        )
    }

    /// The amounts with their names.
    pub(crate) fn named<'a>(&'a self, amounts: &Amounts) -> Vec<(&'a str, Amount)> {
        let name =
            |&(position, amount): &(usize, Amount)| (self.limits[position].0.as_str(), amount);
        amounts.0.iter().map(name).collect()
    }
}

/// Any mapping, as a dictionary.
fn dictionary<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
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
pub(crate) struct Amounts(pub(crate) Vec<(usize, Amount)>);

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

/// A priority.
pub(crate) fn one_of_256(py: Python<'_>, priority: i64) -> PyResult<u8> {
    let told = |_| invalid(py, format!("a priority is 0 to 255, not {priority}"));
    u8::try_from(priority).map_err(told)
}

/// What is asked for, apart from the amounts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) within: Duration,
    pub(crate) priority: u8,
    pub(crate) ttl: Option<Duration>,
}

impl Terms {
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
