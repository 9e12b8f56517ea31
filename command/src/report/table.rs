//! The summary for a person to read.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::summary::Summary;
use super::words::{length, percent};
use crate::replay::Run;
use crate::subject::Grouped;

/// What was played through what.
#[derive(Debug)]
pub struct Titles {
    /// The trace's file, without its folder.
    pub trace: String,
    /// The policy, with its file if that has several.
    pub policy: String,
}

/// Writes the summary.
pub fn write_table(
    out: &mut dyn Write,
    titles: &Titles,
    run: &Run,
    summary: &Summary,
) -> io::Result<()> {
    let keys = match run.trace.keys.len() {
        1 => "1 key".to_owned(),
        keys => format!("{} keys", Grouped(keys as u64)),
    };
    let span = length(run.trace.length());
    writeln!(
        out,
        "{} through {}: {span}, {keys}\n",
        titles.trace, titles.policy
    )?;
    out.write_all(outcomes(run, summary).as_bytes())?;
    writeln!(out)?;
    out.write_all(limits(run, summary).as_bytes())
}

fn outcomes(run: &Run, summary: &Summary) -> String {
    let mut rows = vec![
        ("requests".to_owned(), summary.requests, String::new()),
        (
            "admitted at once".to_owned(),
            summary.admitted,
            share(summary.admitted, summary),
        ),
        ("waited".to_owned(), summary.waited, waits(summary)),
        (
            "refused".to_owned(),
            summary.refused,
            share(summary.refused, summary),
        ),
    ];
    for (limit, &refused) in run.limits.iter().zip(&summary.refused_by) {
        if refused > 0 {
            rows.push((
                format!("  by {}", limit.name),
                refused,
                share(refused, summary),
            ));
        }
    }
    let width = rows
        .iter()
        .map(|(name, ..)| name.chars().count())
        .max()
        .unwrap_or(0);
    rows.iter()
        .fold(String::new(), |mut text, (name, count, note)| {
            let line = format!("{name:<width$}  {:>11}  {note}", Grouped(*count));
            let _ = writeln!(text, "{}", line.trim_end());
            text
        })
}

fn share(count: u64, summary: &Summary) -> String {
    format!("{:>7}", percent(count, summary.requests))
}

fn waits(summary: &Summary) -> String {
    let share = share(summary.waited, summary);
    if summary.waited == 0 {
        return share;
    }
    let [p50, p99, max] = [
        summary.wait_p50_us,
        summary.wait_p99_us,
        summary.wait_max_us,
    ]
    .map(length);
    format!("{share}   p50 {p50}, p99 {p99}, max {max}")
}

const HEAD: [&str; 6] = [
    "limit",
    "is",
    "peak use",
    "mean use",
    "made wait",
    "refused",
];

fn limits(run: &Run, summary: &Summary) -> String {
    let rows = run
        .limits
        .iter()
        .zip(&run.usage)
        .enumerate()
        .map(|(at, (limit, usage))| {
            let mean = usage.mean.round() as u64;
            [
                limit.name.clone(),
                limit.describe(run.unit()),
                in_use(usage.peak, limit.capacity),
                in_use(mean, limit.capacity),
                Grouped(summary.delayed_by[at]).to_string(),
                Grouped(summary.refused_by[at]).to_string(),
            ]
        });
    let rows: Vec<[String; 6]> = std::iter::once(HEAD.map(str::to_owned))
        .chain(rows)
        .collect();
    align(&rows)
}

fn in_use(amount: u64, capacity: u64) -> String {
    format!("{} {:>7}", Grouped(amount), percent(amount, capacity))
}

/// Columns as wide as they must be; all but the first two to the right.
fn align(rows: &[[String; 6]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let gap = if column == 0 { "" } else { "   " };
            let _ = match column {
                0 | 1 => write!(text, "{gap}{cell:<width$}"),
                _ => write!(text, "{gap}{cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}
