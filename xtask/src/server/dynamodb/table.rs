//! The rows, as `proof/bench/RESULTS.md` has them.

use std::fmt::Write as _;

use super::asker::{BARE, Lap, ZAE};
use super::options::Options;
use super::rows::{Outcome, ROWS, rows};
use crate::server::measure::{median, spread};
use crate::server::peers::Missing;

/// How ours compares with another in one round.
type Ratio = fn(&Lap, &Lap) -> f64;

/// What we want to reach: beside whom, of our rate over theirs, and of their CPU time over ours.
const AIMS: [(&str, &str, Ratio, f64); 2] = [
    (BARE, "our rate / its", rate, 0.8),
    (ZAE, "its CPU / ours", cpu, 10.0),
];

fn rate(ours: &Lap, theirs: &Lap) -> f64 {
    ours.rate / theirs.rate
}

fn cpu(ours: &Lap, theirs: &Lap) -> f64 {
    theirs.cpu_us / ours.cpu_us
}

/// Everything that was measured, and what was not.
pub fn text(
    outcomes: &[Outcome],
    missing: &[Missing],
    options: &Options,
    loads: &[String; 2],
) -> String {
    let mut text = format!(
        "`cargo xtask bench dynamodb` ({} rounds of {} s), at one emulator. Medians of interleaved rounds; of \
         ratios with the least and the most. CPU is the asking process's. Load of the machine before and after: \
         {} and {}.\n\n\
         | clients, keys | | decisions/s | p50 ms | p99 ms | CPU us | our rate / theirs | their CPU / ours |\n\
         |---|---|---|---|---|---|---|---|\n",
        options.rounds, options.seconds, loads[0], loads[1]
    );
    let rows = rows(options.keys);
    for (row, (clients, keys)) in rows.into_iter().enumerate() {
        for (nth, one) in outcomes.iter().enumerate() {
            let laps = &one.laps[row];
            let of = |what: fn(&Lap) -> f64| median(&laps.iter().map(what).collect::<Vec<_>>());
            let beside = |ratio| match nth {
                0 => String::new(),
                _ => spread(&ratios(&outcomes[0].laps[row], laps, ratio)),
            };
            let _ = writeln!(
                text,
                "| {clients}, {keys} | {} | {:.0} | {:.2} | {:.2} | {:.0} | {} | {} |",
                one.what,
                of(|lap| lap.rate),
                of(|lap| lap.latency_us[0]) / 1e3,
                of(|lap| lap.latency_us[1]) / 1e3,
                of(|lap| lap.cpu_us),
                beside(rate),
                beside(cpu),
            );
        }
    }
    text += "\n| aim | ";
    text += &rows
        .map(|(clients, keys)| format!("{clients}, {keys}"))
        .join(" | ");
    text += " |\n|---|---|---|---|---|\n";
    for (what, told, ratio, aim) in AIMS {
        let Some(theirs) = outcomes.iter().find(|one| one.what == what) else {
            continue;
        };
        let cell = |row: usize| {
            let seen = median(&ratios(&outcomes[0].laps[row], &theirs.laps[row], ratio));
            let reached = if seen >= aim { "" } else { "**not** " };
            format!("{seen:.2}: {reached}reached")
        };
        let cells: Vec<String> = (0..ROWS).map(cell).collect();
        let _ = writeln!(text, "| {what}: {told}, {aim} | {} |", cells.join(" | "));
    }
    for (what, why) in missing {
        let _ = writeln!(text, "\nNot measured: {what}: {why}");
    }
    text
}

/// By round.
fn ratios(ours: &[Lap], theirs: &[Lap], ratio: Ratio) -> Vec<f64> {
    let rounds = ours.iter().zip(theirs);
    rounds.map(|(ours, theirs)| ratio(ours, theirs)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_each_row_of_each_and_says_what_is_reached() {
        let lap = |rate: f64, cpu_us: f64| Lap {
            rate,
            cpu_us,
            latency_us: [1_000.0, 2_000.0],
        };
        let outcome = |what, one: Lap| Outcome {
            what,
            laps: std::array::from_fn(|_| vec![one; 3]),
        };
        let outcomes = [
            outcome("ours", lap(700.0, 50.0)),
            outcome(BARE, lap(1_000.0, 40.0)),
            outcome(ZAE, lap(100.0, 2_000.0)),
        ];
        let options = Options::parse(&[]).unwrap();
        let loads = ["0.1".to_owned(), "0.2".to_owned()];
        let text = text(&outcomes, &[("other", "why".to_owned())], &options, &loads);
        assert_eq!(text.matches("| ours | 700 |").count(), ROWS, "{text}");
        assert!(
            text.contains("| 7.00 (7.00-7.00) | 40.00 (40.00-40.00) |"),
            "{text}"
        );
        assert_eq!(text.matches("0.70: **not** reached").count(), ROWS);
        assert_eq!(text.matches("40.00: reached").count(), ROWS);
        assert!(text.contains("Not measured: other: why"));
    }
}
