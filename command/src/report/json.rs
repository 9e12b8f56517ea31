//! The summary for a program to read.

use serde_json::{Map, Value, json};

use super::summary::Summary;
use super::table::Titles;
use crate::replay::Run;

/// The summary as JSON, with a line for each entry.
pub fn as_json(titles: &Titles, run: &Run, summary: &Summary) -> String {
    let limits: Map<String, Value> = (0..run.limits.len())
        .map(|at| (run.limits[at].name.clone(), limit(run, summary, at)))
        .collect();
    let value = json!({
        "trace": titles.trace,
        "format": run.trace.format.name(),
        "policy": titles.policy,
        "start": start(run),
        "length_us": run.trace.length(),
        "keys": run.trace.keys.len(),
        "requests": summary.requests,
        "admitted": summary.admitted,
        "waited": summary.waited,
        "refused": summary.refused,
        "wait_p50_us": summary.wait_p50_us,
        "wait_p99_us": summary.wait_p99_us,
        "wait_max_us": summary.wait_max_us,
        "limits": limits,
    });
    format!("{value:#}")
}

fn limit(run: &Run, summary: &Summary, at: usize) -> Value {
    let (subject, usage) = (&run.limits[at], &run.usage[at]);
    json!({
        "is": subject.describe(run.unit()),
        "capacity": subject.capacity,
        "refused": summary.refused_by[at],
        "made_wait": summary.delayed_by[at],
        "requested_amount": summary.amounts[at].0,
        "used_amount": summary.amounts[at].1,
        "peak_use": usage.peak,
        "peak_key": usage.peak_key,
        // Cut to a thousandth: what follows is noise.
        "mean_use": (usage.mean * 1_000.0).round() / 1_000.0,
    })
}

/// The first request's instant, in UTC.
pub fn start(run: &Run) -> String {
    let instant = jiff::Timestamp::from_microsecond(run.trace.start);
    instant
        .map(|instant| instant.to_string())
        .unwrap_or_default()
}
