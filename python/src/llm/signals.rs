//! What an answer of any API says of its limits.

use std::time::SystemTime;

use pyo3::prelude::*;
use tidegate::Timestamp;
use tidegate_llm::{Provider, Received, Signals};

/// In how many seconds a limit that has nothing left grants again, by these headers: those of the
/// IETF's drafts, and what APIs had before; `None` if they tell of none.
#[pyfunction]
pub(crate) fn _exhausted_for(headers: Vec<(String, String)>) -> Option<f64> {
    let headers = super::headers::headers(&headers);
    let received = Received::new(now(), &headers);
    let signals = Signals::read(Provider::Generic, &headers, received);
    let until = signals.exhausted_until()?;
    Some(until.since(received.at()).as_duration().as_secs_f64())
}

#[expect(clippy::disallowed_methods, reason = "headers tell times of day")]
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}
