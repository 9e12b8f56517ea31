//! The limits of each algorithm over time, as SVG: before a server that changes, with
//! signals of more and less noise.

use std::time::Duration;

use svg::Document;
use svg::node::element::{Group, Line, Polyline, Rectangle, Style, Text};
use tidegate::adaptive::Estimator;

use super::server::{Run, SERVER, Server};

/// Windows of 50 samples in each part of the picture.
const PART: usize = 100;
const NOISES: [(&str, f64); 3] = [("none", 0.0), ("low", 0.02), ("high", 0.1)];

const WIDTH: f64 = 900.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 16.0;
const HEAD: f64 = 76.0;
const PANEL: f64 = 110.0;
const GAP: f64 = 42.0;
const FOOT: f64 = 8.0;
const MOST: f64 = 210.0;

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

/// What changes, and the server from then on.
fn parts() -> [(&'static str, Server); 4] {
    let few = Server {
        slots: 25,
        ..SERVER
    };
    let slow = Server {
        micros: 20_000.0,
        ..SERVER
    };
    [
        ("50 slots of 10 ms", SERVER),
        ("25 slots of 10 ms", few),
        ("50 slots of 10 ms", SERVER),
        ("50 slots of 20 ms", slow),
    ]
}

/// Each algorithm; how many samples of the server are one of the picture's windows.
fn runs(noise: f64) -> [(&'static str, Run, usize); 4] {
    let aimd = Estimator::aimd(Duration::from_millis(25));
    [
        (
            "guarded_vegas()",
            Run::windows(Estimator::guarded_vegas(), noise, 1),
            1,
        ),
        ("aimd(25 ms)", Run::samples(aimd, noise, 1), 50),
        ("vegas()", Run::samples(Estimator::vegas(), noise, 1), 50),
        (
            "gradient2()",
            Run::windows(Estimator::gradient2(), noise, 1),
            1,
        ),
    ]
}

/// Draws the picture.
pub fn draw() -> String {
    let panels = runs(0.0).len();
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
            "Limits before a server that is always saturated",
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
        ("none", "no noise"),
        ("low", "noise of 2 %"),
        ("high", "of 10 %"),
        ("slots", "slots of the server"),
    ];
    let mut group = Group::new();
    for (nth, (class, text)) in keys.into_iter().enumerate() {
        let x = LEFT + nth as f64 * 140.0;
        let key = Line::new()
            .set("class", class)
            .set("x1", x)
            .set("x2", x + 24.0)
            .set("y1", 48)
            .set("y2", 48);
        group = group.add(key).add(words("", x + 30.0, 52.0, text));
    }
    let windows = format!("{PART} windows of 50 samples in each part");
    group.add(words("", LEFT + 600.0, 52.0, &windows))
}

fn draw_panel(panel: usize, top: f64) -> Group {
    let mut group = Group::new().add(base(top, 0.0)).add(base(top, 200.0));
    let mut slots = Vec::new();
    for (nth, (text, server)) in parts().into_iter().enumerate() {
        let start = nth * PART;
        slots.push(point(start, server.slots, top));
        slots.push(point(start + PART, server.slots, top));
        group = group.add(words("", x(start) + 4.0, top + PANEL + 14.0, text));
    }
    group = group.add(line("slots", &slots));
    for (class, noise) in NOISES.into_iter().rev() {
        let [.., (name, run, samples)] = &mut runs(noise)[..=panel] else {
            continue;
        };
        let points = limits(run, *samples).into_iter().enumerate();
        let points: Vec<_> = points.map(|(nth, limit)| point(nth, limit, top)).collect();
        group = group.add(line(class, &points));
        if noise == 0.0 {
            group = group.add(words("name", LEFT, top - 6.0, name));
        }
    }
    group
}

fn limits(run: &mut Run, samples: usize) -> Vec<u64> {
    let servers = parts().into_iter().flat_map(|(_, server)| [server; PART]);
    let last = |server| run.limits(samples, server).pop();
    servers.filter_map(last).collect()
}

fn x(window: usize) -> f64 {
    let along = window as f64 / (parts().len() * PART) as f64;
    LEFT + along * (WIDTH - LEFT - RIGHT)
}

fn y(limit: f64, top: f64) -> f64 {
    top + PANEL * (1.0 - limit / MOST)
}

fn point(window: usize, limit: u64, top: f64) -> String {
    format!("{:.1},{:.1}", x(window), y(limit as f64, top))
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
