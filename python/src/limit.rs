//! A limit as `tidegate/limits.py` describes it.

use std::time::Duration;

use pyo3::prelude::*;
use tidegate::{Algorithm, Limit, OnFailure, Period, Unit};

use crate::amount::amount;
use crate::error::invalid;

/// 400 days, in seconds: how long what ends with its process may be held.
pub(crate) const LONGEST_TTL: f64 = 34_560_000.0;

/// What `Limit._spec()` gives.
#[derive(FromPyObject)]
struct Spec<'py> {
    #[pyo3(item)]
    kind: String,
    #[pyo3(item)]
    name: String,
    #[pyo3(item)]
    capacity: Bound<'py, PyAny>,
    /// Microseconds, or a calendar's word and its time zone.
    #[pyo3(item)]
    window: Option<Window>,
    #[pyo3(item)]
    algorithm: Option<String>,
    #[pyo3(item)]
    burst: Option<Bound<'py, PyAny>>,
    #[pyo3(item)]
    places: u8,
    #[pyo3(item)]
    postpaid: bool,
    #[pyo3(item)]
    shadow: bool,
    #[pyo3(item)]
    refund_on_failure: bool,
    #[pyo3(item)]
    ttl: Option<f64>,
}

#[derive(FromPyObject)]
enum Window {
    Every(u64),
    Calendar(String, String),
}

/// The limit that `described` describes.
///
/// # Errors
/// `InvalidRequest`; what makes no sense together is told when the set is made.
pub(crate) fn limit(described: &Bound<'_, PyAny>) -> PyResult<Limit> {
    let py = described.py();
    let spec: Spec<'_> = described.call_method0("_spec")?.extract()?;
    let unit = Unit::decimal(spec.places);
    let capacity = amount(&spec.name, unit, &spec.capacity)?;
    let name = spec.name.as_str();
    let mut limit = match (spec.kind.as_str(), spec.window) {
        ("calls", Some(window)) => Limit::calls(name, capacity, period(py, window)?),
        ("rate", Some(window)) => Limit::rate(name, capacity, period(py, window)?),
        ("budget", Some(window)) => Limit::budget(name, capacity, period(py, window)?),
        ("concurrency", None) => Limit::concurrency(name, capacity),
        (kind, _) => return Err(invalid(py, format!("{name:?} is no limit: {kind}"))),
    };
    limit = limit.unit(unit);
    if let Some(word) = &spec.algorithm {
        let algorithm = algorithm(word);
        let algorithm = algorithm
            .ok_or_else(|| invalid(py, format!("no algorithm {word:?}; there are {ALGORITHMS}")))?;
        limit = limit.algorithm(algorithm);
    }
    if let Some(burst) = &spec.burst {
        limit = limit.burst(amount(name, unit, burst)?);
    }
    if spec.postpaid {
        limit = limit.postpaid();
    }
    if spec.shadow {
        limit = limit.shadow();
    }
    if spec.refund_on_failure {
        limit = limit.on_failure(OnFailure::Refund);
    }
    if let Some(seconds) = spec.ttl {
        limit = limit.ttl(duration(py, seconds)?);
    }
    Ok(limit)
}

fn period(py: Python<'_>, window: Window) -> PyResult<Period> {
    Ok(match window {
        Window::Every(micros) => Period::Every(Duration::from_micros(micros)),
        Window::Calendar(word, zone) => match word.as_str() {
            "day" => Period::day(zone),
            "week" => Period::week(zone),
            "month" => Period::month(zone),
            word => {
                return Err(invalid(
                    py,
                    format!("no calendar {word:?}; there are day, week, month"),
                ));
            }
        },
    })
}

/// The words for an algorithm.
const ALGORITHMS: &str = "token_bucket, gcra, leaky_bucket, fixed_window, first_use_window, \
                          sliding_window, sliding_log";

fn algorithm(word: &str) -> Option<Algorithm> {
    Some(match word {
        "token_bucket" => Algorithm::TokenBucket,
        "gcra" => Algorithm::Gcra,
        "leaky_bucket" => Algorithm::LeakyBucket,
        "fixed_window" => Algorithm::FixedWindow,
        "first_use_window" => Algorithm::FirstUseWindow,
        "sliding_window" => Algorithm::SlidingWindow,
        "sliding_log" => Algorithm::SlidingLog,
        _ => return None,
    })
}

/// So many seconds.
///
/// # Errors
/// `InvalidRequest`: negative, or not a number.
pub(crate) fn duration(py: Python<'_>, seconds: f64) -> PyResult<Duration> {
    let told = |_| invalid(py, format!("{seconds} is no number of seconds"));
    match seconds {
        f64::INFINITY => Ok(Duration::MAX),
        seconds => Duration::try_from_secs_f64(seconds).map_err(told),
    }
}
