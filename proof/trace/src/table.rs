//! The table: a row for each client.

use std::fmt::Write;
use std::time::Duration;

use crate::outcome::Numbers;

/// A client, by its name, and what came of it: where the limit stays, and where it changes.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The limit stays as it is.
    pub steady: Numbers,
    /// The limit is halved, and doubled later.
    pub changing: Numbers,
}

const HEAD: &str = "\
| client | refused | used | answered | waited p50, p99 | limit changes: refused | used | halved, learnt after | doubled | refused though told |
|---|---|---|---|---|---|---|---|---|---|
";

/// The table, as Markdown.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    for Row {
        name,
        steady,
        changing,
    } in rows
    {
        let learnt: Vec<String> = changing.learnt.iter().map(|after| learnt(*after)).collect();
        let (half, most) = steady.waits;
        // Writing to a text never fails.
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {}, {} | {} | {} | {} | {} |",
            refused(steady),
            percent(steady.used, 1),
            percent(steady.answered, 1),
            seconds(half),
            seconds(most),
            refused(changing),
            percent(changing.used, 1),
            learnt.join(" | "),
            changing.refused_though_told,
        );
    }
    text
}

/// How often, and of how many.
fn refused(numbers: &Numbers) -> String {
    let share = numbers.refused as f64 / numbers.asked.max(1) as f64;
    let digits = if share > 0.1 { 0 } else { 2 };
    format!("{} ({})", numbers.refused, percent(share, digits))
}

fn percent(share: f64, digits: usize) -> String {
    format!("{:.digits$} %", share * 100.0)
}

fn seconds(wait: Duration) -> String {
    format!("{:.1} s", wait.as_secs_f64())
}

fn learnt(after: Option<Duration>) -> String {
    after.map_or_else(|| "never".to_owned(), seconds)
}
