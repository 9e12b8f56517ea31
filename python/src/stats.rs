//! What was counted, as a dictionary.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::Statistics;

/// The numbers by their names; times in seconds.
pub(crate) fn dictionary<'py>(
    py: Python<'py>,
    counted: &Statistics,
) -> PyResult<Bound<'py, PyDict>> {
    let stats = PyDict::new(py);
    for (name, number) in [
        ("admitted", counted.admitted),
        ("refused", counted.refused),
        ("waited", counted.waited),
        ("timed_out", counted.timed_out),
        ("abandoned", counted.abandoned),
        ("waiting", counted.waiting),
        ("succeeded", counted.succeeded),
        ("ignored", counted.ignored),
        ("dropped", counted.dropped),
    ] {
        stats.set_item(name, number)?;
    }
    stats.set_item("total_wait", counted.total_wait.as_secs_f64())?;
    stats.set_item("longest_wait", counted.longest_wait.as_secs_f64())?;
    Ok(stats)
}
