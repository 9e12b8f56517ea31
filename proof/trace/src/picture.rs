//! The picture: for each client what the provider let in and what it refused, beside its limit.

use std::fmt::Write;
use std::time::Duration;

use crate::course::{Course, PERIOD};
use crate::outcome::Outcome;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const HEAD: f64 = 84.0;
const PANEL: f64 = 78.0;
const STRIP: f64 = 20.0;
const GAP: f64 = 38.0;
const FOOT: f64 = 40.0;

/// What is counted together.
const BIN: Duration = Duration::from_secs(30);

/// A strip is full at so many refusals in a bin.
const FULL: f64 = 60.0;

/// Colours for light and for dark.
const STYLE: &str = "
text{font-family:Inter,'Segoe UI','Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;font-size:12px;fill:#51626f}
.paper{fill:#ffffff}
.title{font-size:20px;font-weight:600;fill:#14232e}
.name{font-size:14px;font-weight:600;fill:#14232e}
.tick{font-size:11px;fill:#7a8a96}
.grid{stroke:#e4eaee;stroke-width:1}
.base{stroke:#a9b7c0;stroke-width:1}
.admitted{fill:#177e9c}
.refused{fill:#dd5a37}
.limit{stroke:#14232e;stroke-width:1.6;stroke-dasharray:7 4;fill:none}
@media (prefers-color-scheme:dark){
text{fill:#a9bac6}.paper{fill:#0f1a22}.title,.name{fill:#eef4f8}.tick{fill:#8195a3}
.grid{stroke:#22323d}.base{stroke:#4b606e}.admitted{fill:#2f9fbf}.limit{stroke:#eef4f8}}
";

/// Draws the outcomes of one course, each under the name of its client.
#[must_use]
pub fn draw(course: &Course, rows: &[(&str, &Outcome)]) -> String {
    let height = HEAD + rows.len() as f64 * (GAP + PANEL + STRIP) + FOOT;
    let frame = Frame::new(course);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>What a provider lets in and refuses, \
         by client</title>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    words(
        &mut svg,
        "title",
        (LEFT, 32.0),
        "An hour of real calls before a provider that enforces its limit",
    );
    words(
        &mut svg,
        "",
        (LEFT, 54.0),
        "tokens a minute that the provider let in (blue), its limit (dashed), calls that it refused (red)",
    );
    for (nth, (name, outcome)) in rows.iter().enumerate() {
        let top = HEAD + nth as f64 * (GAP + PANEL + STRIP) + GAP - 14.0;
        let numbers = outcome.numbers(course);
        let said = format!(
            "{name}: {} refused, {:.1} % of the limit used",
            numbers.refused,
            numbers.used * 100.0
        );
        words(&mut svg, "name", (LEFT, top - 6.0), &said);
        frame.panel(&mut svg, top, outcome);
    }
    frame.minutes(&mut svg, height - FOOT + 16.0);
    svg.push_str("</svg>\n");
    svg
}

/// What an instant and a number are mapped to.
struct Frame<'c> {
    course: &'c Course,
    bins: usize,
    /// Tokens a minute.
    most: f64,
}

impl<'c> Frame<'c> {
    fn new(course: &'c Course) -> Self {
        let last = course.calls.last().map_or(PERIOD, |call| call.at);
        let limits = course.changes.iter().map(|(_, limit)| *limit);
        let most = limits.chain([course.limit]).max().unwrap_or(1);
        Self {
            course,
            bins: bin(last) + 1,
            // A bucket that was full lets in twice as much in its first minute.
            most: most as f64 * 2.0,
        }
    }

    fn x(&self, at: Duration) -> f64 {
        let share = at.as_secs_f64() / (BIN.as_secs_f64() * self.bins as f64);
        LEFT + (WIDTH - LEFT - RIGHT) * share.min(1.0)
    }

    fn panel(&self, svg: &mut String, top: f64, outcome: &Outcome) {
        let base = top + PANEL;
        let y = |tokens: f64| base - PANEL * (tokens / self.most).min(1.0);
        let (mut admitted, mut refused) = (vec![0.0; self.bins], vec![0.0; self.bins]);
        for one in &outcome.decided {
            let (bins, more) = match one.admitted {
                true => (&mut admitted, one.tokens as f64),
                false => (&mut refused, 1.0),
            };
            if let Some(bin) = bins.get_mut(bin(one.at)) {
                *bin += more;
            }
        }
        let rate = PERIOD.as_secs_f64() / BIN.as_secs_f64();
        for (nth, tokens) in admitted.iter().enumerate() {
            self.bar(svg, "admitted", nth, (base, base - y(tokens * rate)));
        }
        for (nth, calls) in refused.iter().enumerate() {
            let height = (STRIP - 2.0) * (calls / FULL).min(1.0);
            // One is to be seen.
            let height = if *calls > 0.0 { height.max(2.0) } else { 0.0 };
            self.bar(svg, "refused", nth, (base + STRIP, height));
        }
        for line in [base, base + STRIP] {
            let (left, right) = (LEFT, WIDTH - RIGHT);
            put(
                svg,
                format_args!("<path class=\"base\" d=\"M{left} {line:.1}H{right}\"/>"),
            );
        }
        let mut path = format!("M{LEFT} {:.1}", y(self.course.limit as f64));
        for (at, limit) in &self.course.changes {
            // Writing to a text never fails.
            let _ = write!(path, "H{:.1}V{:.1}", self.x(*at), y(*limit as f64));
        }
        let right = WIDTH - RIGHT;
        put(
            svg,
            format_args!("<path class=\"limit\" d=\"{path}H{right}\"/>"),
        );
        let limit = self.course.limit as f64;
        let label = format!("{:.0} k", limit / 1_000.0);
        words(svg, "tick", (LEFT - 44.0, y(limit) + 4.0), &label);
    }

    fn bar(&self, svg: &mut String, class: &str, nth: usize, (base, height): (f64, f64)) {
        if height <= 0.0 {
            return;
        }
        let bins = |bins: usize| BIN * u32::try_from(bins).unwrap_or(u32::MAX);
        let (from, to) = (self.x(bins(nth)), self.x(bins(nth + 1)));
        let (top, width) = (base - height, to - from - 0.5);
        put(
            svg,
            format_args!(
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
            ),
        );
    }

    fn minutes(&self, svg: &mut String, y: f64) {
        let end = BIN * u32::try_from(self.bins).unwrap_or(u32::MAX);
        for minute in (0..)
            .map(|ten| ten * 10)
            .take_while(|minute| PERIOD * *minute <= end)
        {
            words(
                svg,
                "tick",
                (self.x(PERIOD * minute), y),
                &format!("{minute} min"),
            );
        }
    }
}

fn bin(at: Duration) -> usize {
    usize::try_from(at.as_millis() / BIN.as_millis()).unwrap_or(usize::MAX)
}

fn words(svg: &mut String, class: &str, (x, y): (f64, f64), words: &str) {
    // A name is written as in the table, where code stands between backticks.
    let words = words.replace('`', "");
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    put(
        svg,
        format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>"),
    );
}

/// Writing to a text never fails.
fn put(svg: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(svg, "{line}");
}
