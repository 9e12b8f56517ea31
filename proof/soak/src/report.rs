//! What came of it, as a table.

use std::fmt;
use std::time::Duration;

use crate::run::Outcome;
use crate::tally::{LATE, read};
use crate::watch::Flat;

impl Outcome {
    /// Whether everything is as it should be, but for what a slow machine explains.
    #[must_use]
    pub fn holds(&self) -> bool {
        let is_steady = self.late == 0 && !self.flat.iter().any(Flat::grows);
        self.faults.0 == 0 && (is_steady || self.fell_behind())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policies(f)?;
        self.growth(f)?;
        let [asked, granted, refused, ended] = self.totals();
        writeln!(
            f,
            "\n{:.0} acquire + settle a second of {} wanted, for {:.1} s: \
             {asked} leases asked for, {granted} granted, {refused} refused, {ended} ended",
            self.reached(),
            self.rate,
            self.took.as_secs_f64()
        )?;
        let (count, told) = &self.faults;
        writeln!(f, "answers that should not have been: {count}")?;
        told.iter().try_for_each(|fault| writeln!(f, "  {fault}"))?;
        writeln!(f, "answers later than {LATE:?}: {}", self.late)?;
        writeln!(
            f,
            "asks begun at most {} ms after they were due; {} not begun",
            self.behind.as_millis(),
            self.unsent
        )
    }
}

impl Outcome {
    fn policies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<24} {:>9} {:>9} {:>9} {:>9} {:>7}  {:>8} {:>8} {:>8}  refused by",
            "policy",
            "requests",
            "granted",
            "refused",
            "ended",
            "keys",
            "p50 ms",
            "p99 ms",
            "most ms"
        )?;
        for (lane, keys) in self.lanes.iter().zip(&self.keys) {
            let tally = &lane.tally;
            let [p50, p99, most] = tally.spread().map(ms);
            let by = lane.set.refusals();
            let by: Vec<_> = by
                .iter()
                .map(|(limit, count)| format!("{limit} {count}"))
                .collect();
            writeln!(
                f,
                "{:<24} {:>9} {:>9} {:>9} {:>9} {keys:>7}  {p50:>8.2} {p99:>8.2} {most:>8.1}  {}",
                lane.name,
                read(&tally.asked),
                read(&tally.granted),
                read(&tally.refused),
                read(&tally.ended),
                by.join(", ")
            )?;
        }
        Ok(())
    }

    fn growth(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<24} {:>12} {:>12} {:>12} {:>12} {:>12}  (medians of the second and the last fifth)",
            "", "at first", "then", "at last", "at most", "bound"
        )?;
        for flat in &self.flat {
            let is_bytes = ["memory", "file"].contains(&flat.name);
            let show = |number: u64| match is_bytes {
                true => format!("{:.1} MiB", number as f64 / (1 << 20) as f64),
                false => number.to_string(),
            };
            writeln!(
                f,
                "{:<24} {:>12} {:>12} {:>12} {:>12} {:>12}  {}",
                flat.name,
                show(flat.first),
                show(flat.early),
                show(flat.late),
                show(flat.most),
                show(flat.bound),
                if flat.grows() { "GROWS" } else { "flat" }
            )?;
        }
        Ok(())
    }
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1_000.0
}
