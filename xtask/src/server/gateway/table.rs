//! The rows, as `proof/bench/RESULTS.md` has them.

use std::fmt::Write as _;

use super::options::Options;
use super::peers::{LIMITS_OFF, LIMITS_ON};
use super::row::{Row, brief};
use super::streams::Streamed;
use crate::server::clients::Seen;
use crate::server::measure::median;
use crate::server::peers::Missing;

const MIB: f64 = 1_048_576.0;

/// What we want to reach with three limits: what it is, the number, its unit.
const AIMS: [(&str, f64, &str); 4] = [
    ("added p99 of one call", 100.0, "us"),
    ("CPU time of a call", 70.0, "us"),
    ("added time to the first token", 150.0, "us"),
    ("idle memory", 15.0, "MiB"),
];

/// Everything that was measured, and what was not.
pub fn text(rows: &[Row], missing: &[Missing], options: &Options) -> String {
    let direct = &rows[0];
    let ours = rows.iter().find(|row| row.what == LIMITS_ON);
    let mut text = format!(
        "`cargo xtask bench gateway` ({} rounds of {} s). Microseconds that each adds to the provider itself, \
         in the same round; medians, with the least and the most. CPU is the gateway's time for a call, \
         beside that of ours with three limits.\n\n\
         | | one call at once: p50 | p99 | CPU of a call | theirs / ours | 32 at once: calls/s | first token \
         | gap p50 | gap p99 | streams held | MiB idle | steady | rested |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        options.rounds, options.seconds
    );
    for row in &rows[1..] {
        let alone = |which: usize| {
            spread(&added(&row.alone, &direct.alone, |s: &Seen| {
                s.latency_us[which]
            }))
        };
        let streamed =
            |what: fn(&Streamed) -> f64| spread(&added(&row.streamed, &direct.streamed, what));
        let rates: Vec<f64> = row.many.iter().flatten().map(|seen| seen.rate).collect();
        let ratios = ours.map_or_else(Vec::new, |ours| ratios(&row.cpu_us, &ours.cpu_us));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {:.1} | {:.1} |",
            row.what,
            alone(0),
            alone(1),
            spread(&present(&row.cpu_us)),
            ratio(&ratios),
            spread(&rates),
            streamed(|seen| seen.first_us[0]),
            streamed(|seen| seen.gap_us[0]),
            streamed(|seen| seen.gap_us[1]),
            row.held,
            row.idle / MIB,
            median(&row.steady) / MIB,
            row.rested / MIB,
        );
    }
    let _ = writeln!(
        text,
        "\nStreams have 64 tokens, 20 ms apart; 16 are under way where they are measured. Held are so many at once \
         (tried: {:?}) of which none loses a token; the provider itself: {}.\n\n\
         At the highest rate at which no call fails and the 99th percentile is below 50 ms, arriving by \
         chance, beside the provider at the same rate:\n\n\
         | | calls/s | added p50 | added p99 |\n|---|---|---|---|",
        options.streams, direct.held
    );
    for row in &rows[1..] {
        let added = |which: usize| {
            let pairs = row.at_highest.iter();
            let added = pairs.map(|(one, base)| one.latency_us[which] - base.latency_us[which]);
            spread(&added.collect::<Vec<_>>())
        };
        let rate = row
            .highest
            .map_or("none".to_owned(), |rate| format!("{rate:.0}"));
        let _ = writeln!(
            text,
            "| {} | {rate} | {} | {} |",
            row.what,
            added(0),
            added(1)
        );
    }
    aims(&mut text, rows);
    for row in rows.iter().filter(|row| !row.failures.is_empty()) {
        let (first, number) = (&row.failures[0], row.failures.len());
        let _ = writeln!(
            text,
            "\n{}: {number} measurements failed; the first: {first}",
            row.what
        );
    }
    for (what, why) in missing {
        let _ = writeln!(text, "\nNot measured: {what}: {}", brief(why));
    }
    text
}

fn aims(text: &mut String, rows: &[Row]) {
    let direct = &rows[0];
    let limits_off = rows.iter().find(|row| row.what == LIMITS_OFF);
    let Some(row) = rows.iter().find(|row| row.what == LIMITS_ON) else {
        return;
    };
    let seen = |row: &Row| {
        let p99 = added(&row.alone, &direct.alone, |seen: &Seen| seen.latency_us[1]);
        let first = added(&row.streamed, &direct.streamed, |seen: &Streamed| {
            seen.first_us[0]
        });
        let cpu = present(&row.cpu_us);
        [median(&p99), median(&cpu), median(&first), row.idle / MIB]
    };
    let _ = writeln!(
        text,
        "\n| ours, three limits | | limits off | aim |\n|---|---|---|---|"
    );
    let off = limits_off.map_or([f64::NAN; 4], seen);
    for (((what, aim, unit), on), off) in AIMS.iter().zip(seen(row)).zip(off) {
        let reached = match (on.is_nan(), on <= *aim) {
            (true, _) => "not measured",
            (false, true) => "reached",
            (false, false) => "**not reached**",
        };
        let _ = writeln!(
            text,
            "| {what} | {on:.1} {unit} | {off:.1} {unit} | {aim} {unit}: {reached} |"
        );
    }
}

/// What one had more than the other, of the rounds in which both have a figure.
fn added<T>(row: &[Option<T>], base: &[Option<T>], what: impl Fn(&T) -> f64) -> Vec<f64> {
    let pairs = row.iter().zip(base);
    let pairs = pairs.filter_map(|(row, base)| Some(what(row.as_ref()?) - what(base.as_ref()?)));
    pairs.collect()
}

fn ratios(row: &[Option<f64>], base: &[Option<f64>]) -> Vec<f64> {
    let pairs = row.iter().zip(base);
    pairs
        .filter_map(|(row, base)| Some((*row)? / (*base)?))
        .collect()
}

fn present(numbers: &[Option<f64>]) -> Vec<f64> {
    numbers.iter().copied().flatten().collect()
}

/// The median, with the least and the most.
fn spread(numbers: &[f64]) -> String {
    match numbers.is_empty() {
        true => "none".to_owned(),
        false => format!(
            "{:.0} ({:.0}-{:.0})",
            median(numbers),
            least(numbers),
            most(numbers)
        ),
    }
}

fn ratio(numbers: &[f64]) -> String {
    match numbers.is_empty() {
        true => "none".to_owned(),
        false => format!(
            "{:.2} ({:.2}-{:.2})",
            median(numbers),
            least(numbers),
            most(numbers)
        ),
    }
}

fn least(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_without_a_figure_are_left_out_of_both() {
        let row = [Some(3.0), None, Some(9.0)];
        let base = [Some(1.0), Some(1.0), None];
        assert_eq!(added(&row, &base, |number| *number), [2.0]);
        assert_eq!(ratios(&row, &base), [3.0]);
        assert_eq!(spread(&[1.0, 9.0, 2.0]), "2 (1-9)");
        assert_eq!(spread(&[]), "none");
    }
}
