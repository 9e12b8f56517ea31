//! The picture as SVG: an overview of the outcomes, and a panel for each limit
//! with demand behind, what was admitted before it and the limit as a line.

use svg::Document;
use svg::node::Value;
use svg::node::element::{
    ClipPath, Definitions, Element, Group, Path, Rectangle, Style, TSpan, Text, Title,
};

use super::scale::{short, ticks, time_step, time_unit};
use super::series::{Panel, Picture, Window};

const WIDTH: f64 = 1_120.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 118.0;
const PLOT: f64 = WIDTH - LEFT - RIGHT;
const HEAD: f64 = 132.0;
const OVERVIEW: f64 = 110.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 66.0;
const FOOT: f64 = 62.0;

/// Colours once, for light and for dark; a viewer without either gets light.
const STYLE: &str = "
text{font-family:Inter,'Segoe UI','Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;font-size:12px;fill:#51626f}
.paper{fill:#ffffff}
.title{font-size:22px;font-weight:600;fill:#14232e}
.subtitle{font-size:14px}
.name{font-size:15px;font-weight:600;fill:#14232e}
.rest{font-size:12.5px;font-weight:400;fill:#51626f}
.tick{font-size:11px;fill:#7a8a96}
.mark{font-size:11.5px;font-weight:600;fill:#14232e}
.grid{stroke:#e4eaee;stroke-width:1}
.base{stroke:#a9b7c0;stroke-width:1}
.demand{fill:#f6c9b8;stroke:none}
.demand-line{fill:none;stroke:#e58a67;stroke-width:1}
.admitted{fill:#177e9c;stroke:none}
.waited{fill:#edb23f;stroke:none}
.refused{fill:#dd5a37;stroke:none}
.limit{stroke:#14232e;stroke-width:1.6;stroke-dasharray:7 4;fill:none}
@media (prefers-color-scheme:dark){
text,.rest{fill:#a9bac6}.paper{fill:#0f1a22}.title,.name,.mark{fill:#eef4f8}.tick{fill:#8195a3}
.grid{stroke:#22323d}.base{stroke:#4b606e}.demand{fill:#6b3b2c}.demand-line{stroke:#c4704f}
.admitted{fill:#2f9fbf}.limit{stroke:#eef4f8}}
";

/// Draws the picture.
pub fn draw_svg(picture: &Picture) -> String {
    let panels = picture.panels.len() as f64;
    let height = HEAD + OVERVIEW + panels * (GAP + PANEL) + FOOT;
    let mut document = Document::new()
        .set("viewBox", format!("0 0 {WIDTH} {height}"))
        .set("width", WIDTH)
        .set("height", height)
        .set("role", "img")
        .set("font-size", 12)
        .add(Title::new(format!(
            "{}: {}",
            picture.title, picture.subtitle
        )))
        .add(Style::new(STYLE))
        .add(clip())
        .add(rectangle(0.0, 0.0, WIDTH, height).set("class", "paper"))
        .add(words("title", LEFT, 40.0, &picture.title))
        .add(words("subtitle", LEFT, 63.0, &picture.subtitle))
        .add(legend(picture))
        .add(overview(picture));
    for (at, panel) in picture.panels.iter().enumerate() {
        let top = HEAD + OVERVIEW + at as f64 * (GAP + PANEL) + GAP;
        document = document.add(limit(panel, &picture.window, top));
    }
    document = document.add(time_axis(picture, height - FOOT));
    format!("{document}\n")
}

/// Nothing is drawn beside the plots, whatever the numbers.
fn clip() -> Definitions {
    let area = rectangle(LEFT, 0.0, PLOT, 100_000.0);
    Definitions::new().add(ClipPath::new().set("id", "plot").add(area))
}

/// A frame of axes: what it maps a bin and a number to.
struct Frame<'w> {
    window: &'w Window,
    top: f64,
    height: f64,
    most: f64,
}

impl Frame<'_> {
    fn x(&self, bin: usize) -> f64 {
        LEFT + (PLOT * bin as f64 / self.window.bins as f64)
    }

    fn y(&self, number: f64) -> f64 {
        self.top + self.height - self.height * number.min(self.most) / self.most
    }

    fn base(&self) -> f64 {
        self.top + self.height
    }

    /// Grid and numbers, from zero.
    fn axes(&self, label: &str) -> Group {
        let mut group = Group::new();
        for (_, x) in time_ticks(self.window) {
            group = group.add(line("grid", x, self.top, x, self.base()));
        }
        for tick in ticks(self.most, 4) {
            let y = self.y(tick);
            let class = if tick == 0.0 { "base" } else { "grid" };
            group = group.add(line(class, LEFT, y, LEFT + PLOT, y)).add(aligned(
                "tick",
                LEFT - 8.0,
                y + 4.0,
                &short(tick),
                "end",
            ));
        }
        let (x, y) = (LEFT - 56.0, self.top + self.height / 2.0);
        let turned = aligned("tick", x, y, label, "middle");
        group.add(turned.set("transform", format!("rotate(-90 {} {})", px(x), px(y))))
    }

    /// The outline of the numbers as steps, from left to right.
    fn steps(&self, numbers: &[f64]) -> String {
        let mut path = String::new();
        let mut last = None;
        for (bin, number) in numbers.iter().enumerate() {
            let y = px(self.y(*number));
            if last.as_ref() != Some(&y) {
                path += &format!("H{}V{y}", px(self.x(bin)));
            }
            last = Some(y);
        }
        path + &format!("H{}", px(self.x(numbers.len())))
    }

    /// The area under the numbers.
    fn area(&self, class: &str, numbers: &[f64]) -> Path {
        let (left, base) = (px(LEFT), px(self.base()));
        let path = format!("M{left} {base}{}V{base}Z", self.steps(numbers));
        Path::new()
            .set("class", class)
            .set("d", path)
            .set("clip-path", "url(#plot)")
    }

    fn outline(&self, class: &str, numbers: &[f64]) -> Path {
        let path = format!("M{} {}{}", px(LEFT), px(self.base()), self.steps(numbers));
        Path::new()
            .set("class", class)
            .set("d", path)
            .set("clip-path", "url(#plot)")
    }
}

fn overview(picture: &Picture) -> Group {
    let [admitted, waited, refused] = &picture.outcomes;
    let sum = |rows: &[&Vec<u32>]| -> Vec<f64> {
        let bins = 0..picture.window.bins;
        bins.map(|bin| rows.iter().map(|row| f64::from(row[bin])).sum())
            .collect()
    };
    let all = sum(&[admitted, waited, refused]);
    let most = all.iter().copied().fold(1.0, f64::max) * 1.06;
    let frame = Frame {
        window: &picture.window,
        top: HEAD,
        height: OVERVIEW,
        most,
    };
    let bin = crate::report::length(picture.window.bin);
    Group::new()
        .add(heading(
            HEAD,
            "requests",
            &format!("by what became of them, in each {bin}"),
        ))
        .add(frame.axes("requests"))
        .add(frame.area("refused", &all))
        .add(frame.area("waited", &sum(&[admitted, waited])))
        .add(frame.area("admitted", &sum(&[admitted])))
}

fn limit(panel: &Panel, window: &Window, top: f64) -> Group {
    let frame = Frame {
        window,
        top,
        height: PANEL,
        most: panel.top().max(1.0) * 1.06,
    };
    let y = frame.y(panel.limit);
    let beside = LEFT + PLOT + 8.0;
    let mut group = Group::new()
        .add(heading(top, &panel.name, &panel.subtitle))
        .add(frame.axes(&panel.axis))
        .add(frame.area("demand", &panel.demand))
        .add(frame.outline("demand-line", &panel.demand))
        .add(frame.area("admitted", &panel.admitted))
        .add(line("limit", LEFT, y, LEFT + PLOT, y))
        .add(words(
            "mark",
            beside,
            (y + 4.0).min(frame.base() - 6.0),
            &panel.limit_label,
        ));
    if let Some(highest) = panel.beyond() {
        let text = format!("↑ demand to {}", short(highest));
        group = group.add(words("tick", beside, top + 9.0, &text));
    }
    group.add(stops(panel, &frame))
}

/// A strip under a panel: where this limit stopped requests, and how many.
fn stops(panel: &Panel, frame: &Frame<'_>) -> Group {
    let most = panel.stopped.iter().copied().max().unwrap_or(0);
    let total: u32 = panel.stopped.iter().sum();
    let mut group = Group::new();
    for (bin, &count) in panel
        .stopped
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
    {
        let (left, right) = (frame.x(bin), frame.x(bin + 1));
        let strength = 0.35 + 0.65 * f64::from(count) / f64::from(most);
        let mark = rectangle(left, frame.base() + 4.0, right - left, 6.0);
        group = group.add(
            mark.set("class", "refused")
                .set("fill-opacity", px(strength)),
        );
    }
    if total > 0 {
        let text = format!("stopped {}", crate::subject::Grouped(u64::from(total)));
        group = group.add(words("tick", LEFT + PLOT + 8.0, frame.base() + 11.0, &text));
    }
    group
}

fn heading(top: f64, name: &str, rest: &str) -> Text {
    let rest = TSpan::new(rest).set("dx", 10).set("class", "rest");
    words("name", LEFT, top - 13.0, name).add(rest)
}

fn legend(picture: &Picture) -> Group {
    let waited = picture.outcomes[1].iter().any(|count| *count > 0);
    let entries = [
        ("admitted", "admitted", true),
        ("waited", "waited", waited),
        ("refused", "refused", true),
        ("demand", "demand", true),
    ];
    let mut group = Group::new();
    let mut x = LEFT;
    for (class, text, _) in entries.into_iter().filter(|(.., shown)| *shown) {
        let swatch = rectangle(x, 81.0, 14.0, 10.0)
            .set("rx", 2)
            .set("class", class);
        group = group.add(swatch).add(words("", x + 20.0, 90.0, text));
        x += 92.0;
    }
    group
        .add(line("limit", x, 86.0, x + 26.0, 86.0))
        .add(words("", x + 33.0, 90.0, "limit"))
}

/// Round instants, and where they are.
fn time_ticks(window: &Window) -> Vec<(u64, f64)> {
    let step = time_step(window.length, 13);
    let total = window.bin as f64 * window.bins as f64;
    let ticks = (0..)
        .map(|n| n * step)
        .take_while(|tick| *tick <= window.length);
    ticks
        .map(|tick| (tick, LEFT + PLOT * tick as f64 / total))
        .collect()
}

/// Time under the last panel, for all of them.
fn time_axis(picture: &Picture, base: f64) -> Group {
    let (unit, name) = time_unit(time_step(picture.window.length, 13));
    let mut group = Group::new();
    for (tick, x) in time_ticks(&picture.window) {
        group = group
            .add(line("base", x, base + 12.0, x, base + 17.0))
            .add(aligned(
                "tick",
                x,
                base + 30.0,
                &(tick / unit).to_string(),
                "middle",
            ));
    }
    let title = format!("{name} since {}", picture.start);
    group.add(aligned(
        "",
        LEFT + PLOT / 2.0,
        base + 50.0,
        &title,
        "middle",
    ))
}

fn words(class: &str, x: f64, y: f64, text: &str) -> Text {
    Text::new(text)
        .set("class", class)
        .set("x", px(x))
        .set("y", px(y))
}

fn aligned(class: &str, x: f64, y: f64, text: &str, anchor: &str) -> Text {
    words(class, x, y, text).set("text-anchor", anchor)
}

fn line(class: &str, x1: f64, y1: f64, x2: f64, y2: f64) -> Element {
    let mut line = Element::new("line");
    let ends = [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)];
    let attributes = line.get_attributes_mut();
    attributes.extend(ends.map(|(name, at)| (name.to_owned(), Value::from(px(at)))));
    attributes.insert("class".to_owned(), Value::from(class));
    line
}

fn rectangle(x: f64, y: f64, width: f64, height: f64) -> Rectangle {
    Rectangle::new()
        .set("x", px(x))
        .set("y", px(y))
        .set("width", px(width))
        .set("height", px(height))
}

/// A coordinate to a hundredth: no eye sees more, and files stay small.
fn px(at: f64) -> String {
    let text = format!("{at:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
