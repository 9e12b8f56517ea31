//! The limits of each algorithm over time, as SVG: before a simulated provider that changes, with
//! answers that are more and less alike.

use std::time::Duration;

use svg::Document;
use svg::node::element::{Group, Line, Polyline, Rectangle, Style, Text};
use tidegate::adaptive::Estimator;

use super::callers::{Callers, SERVED, Served};

/// Seconds of each part of the picture.
const PART: usize = 120;
const NOISES: [(&str, f64); 3] = [("none", 0.0), ("low", 0.2), ("high", 0.5)];

const WIDTH: f64 = 900.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 16.0;
const HEAD: f64 = 76.0;
const PANEL: f64 = 110.0;
const GAP: f64 = 42.0;
const FOOT: f64 = 8.0;
const MOST: f64 = 135.0;

/// Colours once, for light and for dark.
const STYLE: &str = "
text{font-family:sans-serif;font-size:12px;fill:#51626f}
.title{font-size:16px;font-weight:600}.name{font-weight:600}
.paper{fill:#ffffff}.base{stroke:#a9b7c0;stroke-width:1}
.slots{fill:none;stroke:#14232e;stroke-width:1.2;stroke-dasharray:6 4}
.none{fill:none;stroke:#177e9c;stroke-width:1.8}
.low{fill:none;stroke:#edb23f;stroke-width:1.2}
.high{fill:none;stroke:#dd5a37;stroke-width:1}
@media (prefers-color-scheme:dark){text{fill:#a9bac6}.paper{fill:#0f1a22}.slots{stroke:#eef4f8}.none{stroke:#2f9fbf}}
";

/// What changes, and the provider from then on.
fn parts() -> [(&'static str, Served); 4] {
    let few = Served {
        slots: 16,
        ..SERVED
    };
    let slow = Served {
        first: 200,
        ..SERVED
    };
    [
        ("32 at once, 100 ms", SERVED),
        ("16 at once, 100 ms", few),
        ("32 at once, 100 ms", SERVED),
        ("32 at once, 200 ms", slow),
    ]
}

/// Each algorithm.
fn estimators() -> [(&'static str, Estimator); 4] {
    [
        ("guarded_vegas()", Estimator::guarded_vegas()),
        ("aimd(250 ms)", Estimator::aimd(Duration::from_millis(250))),
        ("vegas()", Estimator::vegas()),
        ("gradient2()", Estimator::gradient2()),
    ]
}

/// Draws the picture.
pub fn draw() -> String {
    let panels = estimators().len();
    let height = HEAD + panels as f64 * (PANEL + GAP) + FOOT;
    let paper = Rectangle::new()
        .set("class", "paper")
        .set("width", WIDTH)
        .set("height", height);
    let mut document = Document::new()
        .set("viewBox", (0.0, 0.0, WIDTH, height))
        .set("role", "img")
        .add(Style::new(STYLE))
        .add(paper)
        .add(words(
            "title",
            LEFT,
            26.0,
            "Limits before a simulated provider that is always saturated",
        ))
        .add(legend());
    for panel in 0..panels {
        let top = HEAD + panel as f64 * (PANEL + GAP) + 24.0;
        document = document.add(draw_panel(panel, top));
    }
    format!("{document}\n")
}

fn legend() -> Group {
    let keys = [
        ("none", "alike"),
        ("low", "20 % off at most"),
        ("high", "50 % off at most"),
        ("slots", "streams at its pace"),
    ];
    let mut group = Group::new();
    for (nth, (class, text)) in keys.into_iter().enumerate() {
        let x = LEFT + nth as f64 * 150.0;
        let key = Line::new()
            .set("class", class)
            .set("x1", x)
            .set("x2", x + 24.0)
            .set("y1", 48)
            .set("y2", 48);
        group = group.add(key).add(words("", x + 30.0, 52.0, text));
    }
    let seconds = format!("{PART} s in each part");
    group.add(words("", LEFT + 620.0, 52.0, &seconds))
}

fn draw_panel(panel: usize, top: f64) -> Group {
    let mut group = Group::new().add(base(top, 0.0)).add(base(top, 100.0));
    let mut slots = Vec::new();
    for (nth, (text, served)) in parts().into_iter().enumerate() {
        let start = nth * PART;
        slots.push(point(start, served.slots, top));
        slots.push(point(start + PART, served.slots, top));
        group = group.add(words("", x(start) + 4.0, top + PANEL + 14.0, text));
    }
    group = group.add(line("slots", &slots));
    for (class, noise) in NOISES.into_iter().rev() {
        let (name, estimator) = estimators().into_iter().nth(panel).expect("one of them");
        let points = limits(estimator, noise).into_iter().enumerate();
        let points: Vec<_> = points.map(|(nth, limit)| point(nth, limit, top)).collect();
        group = group.add(line(class, &points));
        if noise == 0.0 {
            group = group.add(words("name", LEFT, top - 6.0, name));
        }
    }
    group
}

/// The limit at the end of each second.
fn limits(estimator: Estimator, noise: f64) -> Vec<u64> {
    let parts = parts().map(|(_, served)| (PART as u64, served));
    let mut callers = Callers::begin(estimator, &parts, noise, 1);
    callers
        .pass(parts.iter().map(|(seconds, _)| seconds).sum())
        .limits
}

fn x(second: usize) -> f64 {
    let along = second as f64 / (parts().len() * PART) as f64;
    LEFT + along * (WIDTH - LEFT - RIGHT)
}

fn y(limit: f64, top: f64) -> f64 {
    top + PANEL * (1.0 - limit / MOST)
}

fn point(second: usize, limit: u64, top: f64) -> String {
    format!("{:.1},{:.1}", x(second), y(limit as f64, top))
}

fn line(class: &str, points: &[String]) -> Polyline {
    Polyline::new()
        .set("class", class)
        .set("points", points.join(" "))
}

fn base(top: f64, limit: f64) -> Group {
    let y = y(limit, top);
    let line = Line::new()
        .set("class", "base")
        .set("x1", LEFT)
        .set("x2", WIDTH - RIGHT)
        .set("y1", y)
        .set("y2", y);
    let text = words("", LEFT - 30.0, y + 4.0, &format!("{limit}"));
    Group::new().add(line).add(text)
}

fn words(class: &str, x: f64, y: f64, text: &str) -> Text {
    Text::new(text).set("class", class).set("x", x).set("y", y)
}
