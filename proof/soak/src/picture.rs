//! Memory, keys, leases and rate over time, as SVG.

use svg::Document;
use svg::node::element::{Group, Line, Polyline, Rectangle, Style, Text};

use crate::watch::Sample;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const HEAD: f64 = 40.0;
const PANEL: f64 = 90.0;
const GAP: f64 = 45.0;

/// Colours once, for light and for dark.
const STYLE: &str = "
text{font-family:sans-serif;font-size:12px;fill:#51626f}
.paper{fill:#ffffff}.base{stroke:#a9b7c0;stroke-width:1}
.line{fill:none;stroke:#177e9c;stroke-width:1.5}
@media (prefers-color-scheme:dark){text{fill:#a9bac6}.paper{fill:#0f1a22}.line{stroke:#2f9fbf}}
";

/// A panel: what it shows, and what it is at each instant.
type Panel = (&'static str, Vec<f64>);

/// Draws what was seen each second.
#[must_use]
pub fn draw(title: &str, samples: &[Sample]) -> String {
    let panels = panels(samples);
    let height = HEAD + panels.len() as f64 * (PANEL + GAP);
    let paper = Rectangle::new()
        .set("class", "paper")
        .set("width", WIDTH)
        .set("height", height);
    let mut document = Document::new()
        .set("viewBox", (0.0, 0.0, WIDTH, height))
        .set("role", "img")
        .add(Style::new(STYLE))
        .add(paper)
        .add(words(LEFT, 24.0, title));
    for (nth, panel) in panels.iter().enumerate() {
        let top = HEAD + nth as f64 * (PANEL + GAP) + 20.0;
        document = document.add(draw_panel(panel, samples, top));
    }
    format!("{document}\n")
}

fn panels(samples: &[Sample]) -> Vec<Panel> {
    let series = |of: fn(&Sample) -> u64, unit: f64| {
        let numbers = samples.iter().map(|sample| of(sample) as f64 / unit);
        numbers.collect::<Vec<_>>()
    };
    let mib = f64::from(1 << 20);
    let mut rate = vec![0.0];
    rate.extend(samples.windows(2).map(|pair| {
        let asked = (pair[1].asked - pair[0].asked) as f64;
        asked / (pair[1].at - pair[0].at).as_secs_f64().max(1e-9)
    }));
    let mut panels = vec![
        ("requests a second", rate),
        ("memory, MiB", series(|sample| sample.memory, mib)),
        ("keys", series(|sample| sample.keys, 1.0)),
        ("leases held", series(|sample| sample.held, 1.0)),
        ("leases remembered", series(|sample| sample.remembered, 1.0)),
    ];
    if samples.iter().any(|sample| sample.file > 0) {
        panels.push(("file, MiB", series(|sample| sample.file, mib)));
    }
    panels
}

fn draw_panel((name, numbers): &Panel, samples: &[Sample], top: f64) -> Group {
    let most = numbers.iter().copied().fold(1.0, f64::max);
    let end = samples
        .last()
        .map_or(1.0, |last| last.at.as_secs_f64().max(1e-9));
    let points = samples.iter().zip(numbers).map(|(sample, number)| {
        let along = sample.at.as_secs_f64() / end;
        let x = LEFT + along * (WIDTH - LEFT - RIGHT);
        format!("{x:.1},{:.1}", top + PANEL * (1.0 - number / most))
    });
    let points: Vec<_> = points.collect();
    let base = Line::new()
        .set("class", "base")
        .set("x1", LEFT)
        .set("x2", WIDTH - RIGHT)
        .set("y1", top + PANEL)
        .set("y2", top + PANEL);
    let line = Polyline::new()
        .set("class", "line")
        .set("points", points.join(" "));
    Group::new()
        .add(base)
        .add(line)
        .add(words(
            LEFT,
            top - 6.0,
            &format!("{name}; at most {most:.0}"),
        ))
        .add(words(LEFT, top + PANEL + 15.0, "0 s"))
        .add(words(
            WIDTH - RIGHT - 40.0,
            top + PANEL + 15.0,
            &format!("{end:.0} s"),
        ))
}

fn words(x: f64, y: f64, text: &str) -> Text {
    Text::new(text).set("x", x).set("y", y)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_second_is_a_point_of_each_panel() {
        let sample = |at| Sample {
            at: Duration::from_secs(at),
            asked: at * 100,
            memory: 5 << 20,
            ..Sample::default()
        };
        let samples: Vec<_> = (0..=10).map(sample).collect();
        let picture = draw("a soak", &samples);
        let points = picture.lines().find(|line| line.contains("<polyline"));
        assert_eq!(
            points.map(|line| line.matches(',').count()),
            Some(11),
            "{picture}"
        );
        assert!(
            picture.contains("requests a second; at most 100"),
            "{picture}"
        );
        assert!(!picture.contains("file"), "no file, no panel");
    }
}
