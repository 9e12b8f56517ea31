//! Time that a test moves.

use std::time::Duration;

use pyo3::prelude::*;
use tidegate::lock::LeasedSemaphore;
use tidegate::{Amount, Clock, Timestamp};

use crate::error::invalid;
use crate::limit::duration;
use crate::named::Named;

/// 1,000 years: as far as it can be moved, or begin.
const LONGEST: Duration = Duration::from_secs(31_557_600_000);

/// A clock that stands still until it is advanced.
#[pyclass(frozen, module = "tidegate.testing")]
pub(crate) struct ManualClock {
    time: tidegate::ManualClock,
    /// Those that go by it: of one name, there is one.
    pub(crate) semaphores: Named<(LeasedSemaphore, Amount)>,
}

impl ManualClock {
    pub(crate) fn clock(&self) -> Clock {
        self.time.clock()
    }
}

/// # Errors
/// `InvalidRequest`: negative, not a number, more than 1,000 years.
fn seconds(py: Python<'_>, seconds: f64) -> PyResult<Duration> {
    match duration(py, seconds)? {
        length if length <= LONGEST => Ok(length),
        _ => Err(invalid(
            py,
            format!("{seconds} s are more than 1,000 years"),
        )),
    }
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (start=None))]
    fn new(py: Python<'_>, start: Option<f64>) -> PyResult<Self> {
        let time = match start {
            None => tidegate::ManualClock::default(),
            Some(start) => {
                let micros = seconds(py, start)?.as_micros();
                let micros = i64::try_from(micros).unwrap_or(i64::MAX);
                tidegate::ManualClock::starting_at(Timestamp::from_micros(micros))
            }
        };
        let semaphores = Named::new();
        Ok(Self { time, semaphores })
    }

    /// Seconds since the Unix epoch.
    fn now(&self) -> f64 {
        self.clock().now().as_micros() as f64 / 1e6
    }

    /// Moves it forward; whose turn comes on the way has it.
    fn advance(&self, py: Python<'_>, by: f64) -> PyResult<()> {
        let by = seconds(py, by)?;
        py.detach(|| self.time.advance(by));
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<ManualClock: {}>", self.clock().now())
    }
}
