//! What has happened between two moments.

use std::cmp::Ordering;
use std::time::Duration;

use clap::ValueEnum;

use super::quantile::Quantile;
use super::sample::{Counts, Denied, Sample};

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The policies, in the order that was asked for.
    pub rows: Vec<Row>,
    /// All of them together.
    pub total: Row,
    /// The keys refused most often since the server's start.
    pub denied: Vec<Denied>,
    /// The server's store gives no answers.
    pub is_store_away: bool,
}

/// What is said then.
pub const AWAY: &str = "THE STORE DOES NOT ANSWER: policies answer by their failure_mode";

/// What one policy did.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub policy: String,
    /// A second.
    pub admitted: f64,
    /// A second.
    pub refused: f64,
    /// A second.
    pub failed: f64,
    /// A second: answered without the store, by `failure_mode = "share"`, which is counted as admitted
    /// or refused, too; or by `admit`, which is not.
    pub degraded: f64,
    /// Now.
    pub waiting: f64,
    /// Now, where the store says so: one beyond a network does not.
    pub leases: Option<f64>,
    /// Likewise.
    pub keys: Option<f64>,
    /// Of the waits for leases granted meanwhile.
    pub p50: Option<Quantile>,
    /// Of the same.
    pub p99: Option<Quantile>,
}

/// By what rows are sorted: the most first, names from A on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Order {
    Policy,
    Admitted,
    Refused,
    Failed,
    Degraded,
    Waiting,
    Leases,
    Keys,
    P50,
    P99,
}

/// The columns, in the order of [`Order`].
pub const COLUMNS: [&str; 10] = [
    "POLICY", "ADM/s", "REF/s", "FAIL/s", "DEGR/s", "WAITING", "LEASES", "KEYS", "P50", "P99",
];

impl Frame {
    /// What has happened in `elapsed`.
    pub fn between(before: &Sample, after: &Sample, elapsed: Duration, order: Order) -> Self {
        let none = Counts::default();
        let rows = after.policies.iter().map(|(policy, counts)| {
            let before = before.policies.get(policy).unwrap_or(&none);
            Row::between(policy, before, counts, elapsed)
        });
        let mut frame = Self {
            rows: rows.collect(),
            total: Row::default(),
            denied: after.denied.clone(),
            is_store_away: after.is_store_away,
        };
        frame.total = total(&frame.rows);
        frame.sort(order);
        frame
    }

    /// How wide each column is.
    pub fn widths(&self) -> [u16; COLUMNS.len()] {
        let rows = self.rows.iter().chain([&self.total]).map(Row::cells);
        let mut widths = COLUMNS.map(width);
        for cells in rows {
            for (widest, cell) in widths.iter_mut().zip(&cells) {
                *widest = (*widest).max(width(cell));
            }
        }
        widths
    }

    /// Puts the rows into another order.
    pub fn sort(&mut self, order: Order) {
        // Stable: what is alike stays by name.
        self.rows.sort_by(|a, b| a.policy.cmp(&b.policy));
        self.rows.sort_by(|a, b| order.compare(a, b));
    }
}

fn width(cell: &str) -> u16 {
    u16::try_from(cell.chars().count()).unwrap_or(u16::MAX)
}

impl Row {
    fn between(policy: &str, before: &Counts, after: &Counts, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64().max(1e-6);
        // A server that began anew counts from nothing.
        let rate = |before: f64, after: f64| match after >= before {
            true => (after - before) / seconds,
            false => after / seconds,
        };
        let waits = after.waits.since(&before.waits);
        let degraded = rate(before.degraded, after.degraded);
        Self {
            policy: policy.to_owned(),
            admitted: rate(before.admitted, after.admitted),
            refused: rate(before.refused, after.refused),
            failed: rate(before.failed, after.failed),
            degraded,
            waiting: after.waiting,
            leases: after.leases,
            keys: after.keys,
            p50: waits.quantile(0.5),
            p99: waits.quantile(0.99),
        }
    }

    /// What stands in each of the [`COLUMNS`].
    pub fn cells(&self) -> [String; 10] {
        [
            self.policy.clone(),
            rate(self.admitted),
            rate(self.refused),
            rate(self.failed),
            rate(self.degraded),
            self.waiting.to_string(),
            known(self.leases),
            known(self.keys),
            wait(self.p50),
            wait(self.p99),
        ]
    }
}

fn total(rows: &[Row]) -> Row {
    let sum = |part: fn(&Row) -> f64| rows.iter().map(part).sum();
    // Of what is known of each alone.
    let sum_known = |part: fn(&Row) -> Option<f64>| rows.iter().map(part).sum();
    Row {
        policy: "all".to_owned(),
        admitted: sum(|row| row.admitted),
        refused: sum(|row| row.refused),
        failed: sum(|row| row.failed),
        degraded: sum(|row| row.degraded),
        waiting: sum(|row| row.waiting),
        leases: sum_known(|row| row.leases),
        keys: sum_known(|row| row.keys),
        p50: None,
        p99: None,
    }
}

impl Order {
    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let most = |part: fn(&Row) -> f64| part(b).total_cmp(&part(a));
        match self {
            Self::Policy => a.policy.cmp(&b.policy),
            Self::Admitted => most(|row| row.admitted),
            Self::Refused => most(|row| row.refused),
            Self::Failed => most(|row| row.failed),
            Self::Degraded => most(|row| row.degraded),
            Self::Waiting => most(|row| row.waiting),
            Self::Leases => most(|row| row.leases.unwrap_or(-1.0)),
            Self::Keys => most(|row| row.keys.unwrap_or(-1.0)),
            Self::P50 => most(|row| seconds(row.p50)),
            Self::P99 => most(|row| seconds(row.p99)),
        }
    }

    /// The column so many further to the right, around the end.
    #[cfg(feature = "screen")]
    pub fn moved(self, by: isize) -> Self {
        let all = Self::value_variants();
        let at = (self as isize + by).rem_euclid(all.len() as isize);
        all[at as usize]
    }
}

fn seconds(quantile: Option<Quantile>) -> f64 {
    match quantile {
        None => -1.0,
        Some(Quantile::About(seconds) | Quantile::Beyond(seconds)) => seconds,
    }
}

fn known(count: Option<f64>) -> String {
    count.map_or_else(|| "-".to_owned(), |count| count.to_string())
}

fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

fn wait(quantile: Option<Quantile>) -> String {
    match quantile {
        None => "-".to_owned(),
        Some(Quantile::About(seconds)) => length(seconds),
        Some(Quantile::Beyond(seconds)) => format!(">{}", length(seconds)),
    }
}

fn length(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0}us", s * 1e6),
        s if s < 1.0 => format!("{:.0}ms", s * 1e3),
        s => format!("{s:.1}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(policies: &[(&str, u64, u64)]) -> Sample {
        let lines = policies.iter().map(|(policy, admitted, refused)| {
            let decisions = |outcome: &str, count: &u64| {
                format!("tidegate_decisions_total{{policy=\"{policy}\",outcome=\"{outcome}\"}} {count}\n")
            };
            let waits = [("0.2", admitted / 2), ("1", *admitted), ("+Inf", *admitted)];
            let waits = waits.map(|(le, count)| {
                format!("tidegate_wait_seconds_bucket{{policy=\"{policy}\",le=\"{le}\"}} {count}\n")
            });
            decisions("admitted", admitted) + &decisions("refused", refused) + &waits.concat()
        });
        let gauge = "tidegate_waiting{policy=\"b\"} 4\ntidegate_leases{policy=\"b\"} 2\n";
        Sample::read(&(lines.collect::<String>() + gauge), "default")
    }

    fn names(frame: &Frame) -> Vec<&str> {
        frame.rows.iter().map(|row| row.policy.as_str()).collect()
    }

    #[test]
    fn rates_are_counted_over_the_interval_and_sorted_by_a_column() {
        let before = metrics(&[("a", 100, 10), ("b", 0, 0)]);
        let after = metrics(&[("a", 300, 30), ("b", 50, 90), ("c", 20, 20)]);
        let mut frame = Frame::between(&before, &after, Duration::from_secs(2), Order::Refused);
        assert_eq!(names(&frame), ["b", "a", "c"]);
        let cells = ["b", "25", "45", "0", "0", "4", "2", "-", "200ms", "984ms"];
        assert_eq!(frame.rows[0].cells(), cells);
        assert_eq!(frame.total.cells()[..3], ["all", "135", "65"]);
        frame.sort(Order::Policy);
        assert_eq!(names(&frame), ["a", "b", "c"]);
        frame.sort(Order::Admitted);
        assert_eq!(names(&frame), ["a", "b", "c"]);
        frame.sort(Order::Waiting);
        assert_eq!(names(&frame), ["b", "a", "c"]);
    }

    /// Policies that admit without their store looked as if all were well.
    #[test]
    fn what_is_answered_without_the_store_is_told() {
        let at = |count, answers| {
            let text = format!(
                "tidegate_degraded_total{{policy=\"a\"}} {count}\ntidegate_store_up {answers}\n"
            );
            Sample::read(&text, "default")
        };
        let frame = |answers| {
            let (before, after) = (at(10, 1), at(30, answers));
            Frame::between(&before, &after, Duration::from_secs(2), Order::Degraded)
        };
        let away = frame(0);
        assert_eq!(away.rows[0].cells()[..5], ["a", "0", "0", "0", "10"]);
        assert!(away.is_store_away && !frame(1).is_store_away);
        let text = super::super::plain::text(&away);
        assert!(text.contains(AWAY), "{text}");
    }

    /// The keys of all namespaces were added up, whichever was asked for.
    #[test]
    fn policies_of_other_namespaces_are_not_counted() {
        let gauge =
            "tidegate_keys{policy=\"p\"} 1\ntidegate_keys{policy=\"p\",namespace=\"acme\"} 4\n";
        let keys = |namespace| Sample::read(gauge, namespace).policies["p"].keys;
        assert_eq!([keys("default"), keys("acme")], [Some(1.0), Some(4.0)]);
        assert!(Sample::read(gauge, "beta").policies.is_empty());
    }

    #[test]
    fn a_server_that_began_anew_counts_from_nothing() {
        let (before, after) = (metrics(&[("a", 900, 9)]), metrics(&[("a", 20, 0)]));
        let frame = Frame::between(&before, &after, Duration::from_secs(1), Order::Policy);
        assert_eq!(frame.rows[0].cells()[1], "20");
    }

    #[test]
    fn what_is_not_counted_has_no_length() {
        let none = metrics(&[("a", 0, 0)]);
        let frame = Frame::between(&none, &none, Duration::from_secs(1), Order::P99);
        assert_eq!(frame.rows[0].cells()[8..], ["-", "-"]);
        assert_eq!(wait(Some(Quantile::Beyond(300.0))), ">300.0s");
    }
}
