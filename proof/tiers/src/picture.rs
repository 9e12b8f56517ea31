//! A fleet's course over time, as SVG.

use svg::Document;
use svg::node::element::{Group, Line, Polyline, Rectangle, Style, Text};

use crate::report::grouped;
use crate::timeline::{AWAY_AT, BACK_AT, Bin, Course, END_AT, KILL_AT, STEP_AT};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const HEAD: f64 = 44.0;
const PANEL: f64 = 110.0;
const GAP: f64 = 56.0;

/// Colours once, for light and for dark.
const STYLE: &str = "
text{font-family:sans-serif;font-size:12px;fill:#51626f}
.title{font-size:16px;font-weight:600}.name{font-weight:600}
.paper{fill:#ffffff}.base{stroke:#a9b7c0;stroke-width:1}
.event{stroke:#dd5a37;stroke-width:1;stroke-dasharray:4 4}
.limit{stroke:#14232e;stroke-width:1.2;stroke-dasharray:6 4}
.line{fill:none;stroke:#177e9c;stroke-width:1.6}
@media (prefers-color-scheme:dark){text{fill:#a9bac6}.paper{fill:#0f1a22}.line{stroke:#2f9fbf}.limit{stroke:#eef4f8}}
";

/// What happens when.
const EVENTS: [(u64, &str); 4] = [
    (STEP_AT, "demand moves"),
    (KILL_AT, "a quarter is killed"),
    (AWAY_AT, "store away"),
    (BACK_AT, "and back"),
];

/// Draws it.
#[must_use]
pub fn draw(course: &Course) -> String {
    let admitted = |bin: &Bin| bin.admitted as f64 / course.rate as f64 * 100.0;
    let most = |of: fn(&Bin) -> u64| course.bins.iter().map(of).max().unwrap_or(0);
    let grants = most(|bin| bin.grants).max(1);
    let failed = most(|bin| bin.failed).max(1);
    let each = |of: &dyn Fn(&Bin) -> f64| course.bins.iter().map(of).collect::<Vec<_>>();
    let panels = [
        (
            "admitted, in hundredths of what comes back".to_owned(),
            each(&admitted),
            200.0,
        ),
        (
            format!("requests for a grant in 50 ms; at most {}", grouped(grants)),
            each(&|bin| bin.grants as f64),
            grants as f64,
        ),
        (
            format!(
                "requests without an answer in 50 ms; at most {}",
                grouped(failed)
            ),
            each(&|bin| bin.failed as f64),
            failed as f64,
        ),
    ];
    let height = HEAD + panels.len() as f64 * (PANEL + GAP);
    let paper = Rectangle::new()
        .set("class", "paper")
        .set("width", WIDTH)
        .set("height", height);
    let title = format!(
        "{} nodes share a bucket by grants, under half as much demand again",
        grouped(course.nodes as u64)
    );
    let mut document = Document::new()
        .set("viewBox", (0.0, 0.0, WIDTH, height))
        .set("role", "img")
        .add(Style::new(STYLE))
        .add(paper)
        .add(words("title", LEFT, 26.0, &title));
    for (nth, (name, numbers, most)) in panels.iter().enumerate() {
        let top = HEAD + nth as f64 * (PANEL + GAP) + 24.0;
        document = document.add(panel(name, numbers, *most, top));
        if nth == 0 {
            document = document.add(across("limit", y(top, 0.5)));
        }
    }
    format!("{document}\n")
}

fn panel(name: &str, numbers: &[f64], most: f64, top: f64) -> Group {
    let mut group =
        Group::new()
            .add(across("base", top + PANEL))
            .add(words("name", LEFT, top - 6.0, name));
    for (second, what) in EVENTS {
        let x = x(second as f64);
        let line = Line::new()
            .set("class", "event")
            .set("x1", x)
            .set("x2", x)
            .set("y1", top)
            .set("y2", top + PANEL);
        let text = format!("{second} s: {what}");
        group = group
            .add(line)
            .add(words("", x + 3.0, top + PANEL + 15.0, &text));
    }
    let points = numbers.iter().enumerate().map(|(nth, number)| {
        let second = (nth as f64 + 0.5) * END_AT as f64 / numbers.len() as f64;
        format!("{:.1},{:.1}", x(second), y(top, (number / most).min(1.0)))
    });
    let points: Vec<_> = points.collect();
    let line = Polyline::new()
        .set("class", "line")
        .set("points", points.join(" "));
    group.add(line)
}

fn across(class: &str, y: f64) -> Line {
    Line::new()
        .set("class", class)
        .set("x1", LEFT)
        .set("x2", WIDTH - RIGHT)
        .set("y1", y)
        .set("y2", y)
}

fn x(second: f64) -> f64 {
    LEFT + second / END_AT as f64 * (WIDTH - LEFT - RIGHT)
}

fn y(top: f64, part: f64) -> f64 {
    top + PANEL * (1.0 - part)
}

fn words(class: &str, x: f64, y: f64, text: &str) -> Text {
    Text::new(text).set("class", class).set("x", x).set("y", y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline;

    #[test]
    fn each_bin_is_a_point_of_each_panel() {
        let course = timeline::run(2);
        let picture = draw(&course);
        let lines = picture.lines().filter(|line| line.contains("<polyline"));
        let points: Vec<_> = lines.map(|line| line.matches(',').count()).collect();
        assert_eq!(points, [course.bins.len(); 3], "{picture}");
        assert!(picture.contains("11 s: and back"), "{picture}");
    }
}
