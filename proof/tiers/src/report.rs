//! What came of it, as tables of Markdown.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::Told;
use crate::ledger::{Nearest, Terms};
use crate::limits::Shape;
use crate::scale::Used;
use crate::stranded::Stranded;
use crate::timeline::{BACK_AT, Course, KILL_AT, STEP_AT};

/// What many histories came to.
#[derive(Clone, Default, Debug)]
pub struct Seen {
    /// How many there were.
    pub histories: u64,
    /// The most nodes that one had.
    pub most_nodes: usize,
    /// What was admitted in all.
    pub admitted: u64,
    /// How often limits were changed, and nodes killed.
    pub changes: u64,
    /// See there.
    pub kills: u64,
    /// By the kind of limit and what its tier promises: how often it was looked at, how often its bound was reached, and
    /// the nearest that it came to it.
    kinds: BTreeMap<(&'static str, &'static str), (u64, u64, Nearest)>,
}

/// What a tier promises, as tables name it after the kind of limit.
const PROMISES: [&str; 3] = ["", ", bounded", ", exact"];

const fn promise(terms: &Terms) -> &'static str {
    match (terms.is_exact, terms.outstanding) {
        (true, _) => PROMISES[2],
        (false, Some(_)) => PROMISES[1],
        (false, None) => PROMISES[0],
    }
}

impl Seen {
    /// Takes one down.
    pub fn note(&mut self, told: &Told) {
        self.histories += 1;
        self.most_nodes = self.most_nodes.max(told.nodes);
        self.admitted += told.admitted;
        self.changes += told.changes;
        self.kills += told.kills;
        for (shape, nearest) in &told.nearest {
            let (rows, reached, all) = self
                .kinds
                .entry((shape.name(), promise(&told.terms)))
                .or_default();
            *rows += 1;
            *reached += u64::from(nearest.bound > 0 && nearest.observed >= nearest.bound);
            *all = all.or(*nearest);
        }
    }

    /// As much as another has seen, and this.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.histories += other.histories;
        self.most_nodes = self.most_nodes.max(other.most_nodes);
        self.admitted += other.admitted;
        self.changes += other.changes;
        self.kills += other.kills;
        for (name, (rows, reached, nearest)) in other.kinds {
            let (all_rows, all_reached, all) = self.kinds.entry(name).or_default();
            *all_rows += rows;
            *all_reached += reached;
            *all = all.or(nearest);
        }
        self
    }

    /// The nearest that limits of this kind came to their bound.
    #[must_use]
    pub fn nearest(&self, kind: &str) -> Nearest {
        let of_kind = self.kinds.iter().filter(|((of, _), _)| *of == kind);
        of_kind.fold(Nearest::default(), |all, (_, of)| all.or(of.2))
    }

    /// Whether no bound was exceeded.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.kinds.values().all(|(_, _, nearest)| nearest.holds())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} histories of 1 to {} nodes: {} units admitted, {} changes of limits, {} nodes killed\n",
            grouped(self.histories),
            self.most_nodes,
            grouped(self.admitted),
            grouped(self.changes),
            grouped(self.kills),
        )?;
        writeln!(f, "| limit | rows | nearest to the bound | reached it |")?;
        writeln!(f, "|---|--:|--:|--:|")?;
        for shape in Shape::all(2) {
            for promise in PROMISES {
                let name = shape.name();
                let Some((rows, reached, nearest)) = self.kinds.get(&(name, promise)) else {
                    continue;
                };
                writeln!(
                    f,
                    "| {name}{promise} | {} | {} of {} | {} |",
                    grouped(*rows),
                    nearest.observed,
                    nearest.bound,
                    grouped(*reached),
                )?;
            }
        }
        Ok(())
    }
}

/// A row of the table of fleets: the limit used by all alike, and skewed; and its course.
#[must_use]
pub fn row(
    nodes: usize,
    (alike, skewed): (&Used, &Used),
    course: &Course,
    stranded: &Stranded,
) -> String {
    let nearest = alike.nearest.or(skewed.nearest);
    let settles = [STEP_AT, KILL_AT, BACK_AT].map(|at| match course.settles(at) {
        Some(milliseconds) => format!("{milliseconds} ms"),
        None => "not".to_owned(),
    });
    let [step, dead, back] = settles;
    format!(
        "| {} | {} | {} | {:.1} % | {:.1} % | {} | {:.0} | {:.0} | {:.1} / {:.1} ms | {step} | {dead} | {:.1} % | {back} |",
        grouped(nodes as u64),
        grouped(nearest.bound),
        grouped(nearest.observed),
        alike.utilisation,
        skewed.utilisation,
        grouped(alike.grants as u64),
        alike.decisions,
        skewed.decisions,
        alike.waits.0,
        alike.waits.1,
        100.0 * stranded.stranded as f64 / stranded.capacity as f64,
    )
}

/// The head of that table.
pub const HEAD: &str = "\
| nodes | stated bound | observed | used | used, skewed | grants a second | decisions for a grant | skewed | waits, p50 / p99 | after a step of demand | after dead nodes | stranded by them | after the store's return |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

/// A row of the table of kinds: by all alike, and skewed.
#[must_use]
pub fn row_of_kind(shape: Shape, alike: &Used, skewed: &Used) -> String {
    let nearest = alike.nearest.or(skewed.nearest);
    format!(
        "| {} | {} | {} | {:.1} % | {:.1} % | {} | {:.1} | {:.1} |",
        shape.name(),
        grouped(nearest.bound),
        grouped(nearest.observed),
        alike.utilisation,
        skewed.utilisation,
        grouped(alike.grants as u64),
        alike.decisions,
        skewed.decisions,
    )
}

/// The head of that one.
pub const HEAD_OF_KINDS: &str = "\
| limit | stated bound | observed, nearest to it | used | used, skewed | grants a second | decisions for a grant | skewed |
|---|--:|--:|--:|--:|--:|--:|--:|";

/// A number with its thousands apart.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let of = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(of, ["0", "999", "1,000", "1,234,567"]);
    }
}
