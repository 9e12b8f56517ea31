//! Every decision, as CSV for a script to read.

use std::io::Write;
use std::path::Path;

use crate::replay::Run;
use tidegate_server::trouble::{Outcome, Trouble};

const COLUMNS: [&str; 7] = [
    "request",
    "key",
    "arrived_us",
    "started_us",
    "ended_us",
    "outcome",
    "binding_limit",
];

/// Writes the decisions of a run to a file.
pub fn write_decisions(run: &Run, path: &Path) -> Outcome<()> {
    let file = std::fs::File::create(path).map_err(|error| Trouble::file("write", path, error))?;
    let mut out = csv::Writer::from_writer(std::io::BufWriter::new(file));
    write(run, &mut out).map_err(|error| Trouble::file("write", path, error))
}

fn write(run: &Run, out: &mut csv::Writer<impl Write>) -> csv::Result<()> {
    out.write_record(header(run))?;
    for number in 0..run.decisions.len() {
        out.write_record(row(run, number))?;
    }
    Ok(out.flush()?)
}

fn header(run: &Run) -> Vec<String> {
    let amounts = run.limits.iter().flat_map(|limit| {
        [
            format!("reserved.{}", limit.name),
            format!("used.{}", limit.name),
        ]
    });
    COLUMNS
        .into_iter()
        .map(str::to_owned)
        .chain(amounts)
        .collect()
}

fn row(run: &Run, number: usize) -> Vec<String> {
    let (request, decision) = (&run.trace.requests[number], &run.decisions[number]);
    let instant = |pick: fn((u64, u64)) -> u64| decision.ran.map(pick).map(|at| at.to_string());
    let binding = decision.binding.map(|limit| run.limits[limit].name.clone());
    let first = [
        number.to_string(),
        run.trace.keys[request.key as usize].clone(),
        request.arrived.to_string(),
        instant(|ran| ran.0).unwrap_or_default(),
        instant(|ran| ran.1).unwrap_or_default(),
        decision.outcome.word().to_owned(),
        binding.unwrap_or_default(),
    ];
    let amounts = (0..run.limits.len()).flat_map(|limit| {
        let amounts = [
            run.charges.reserved(limit, request),
            run.charges.used(limit, request),
        ];
        amounts.map(|amount| decision.ran.map(|_| amount.to_string()).unwrap_or_default())
    });
    first.into_iter().chain(amounts).collect()
}
