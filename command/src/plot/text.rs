//! The picture in characters, for a terminal.

use std::fmt::Write as _;

use super::scale::short;
use super::series::{Panel, Picture};
use crate::report::length;

/// Rows of a panel.
const ROWS: usize = 7;
/// Columns left of the plot.
const MARGIN: usize = 8;

/// How many columns of a terminal are left for the plot itself.
pub fn plot_width(columns: u16) -> u64 {
    u64::from(columns)
        .saturating_sub(MARGIN as u64 + 3)
        .clamp(20, 300)
}

/// Draws the picture: what was admitted, what was asked beyond it, the limit.
pub fn draw_text(picture: &Picture) -> String {
    let mut out = String::new();
    for panel in &picture.panels {
        let _ = writeln!(out, "\n{}  {} ({})", panel.name, panel.subtitle, panel.axis);
        draw_panel(panel, &mut out);
    }
    let width = picture.window.bins;
    let end = length(picture.window.length);
    let space = width.saturating_sub(end.chars().count() + 1);
    let _ = writeln!(out, "{:MARGIN$}  0{:space$}{end}", "", "");
    let _ = writeln!(
        out,
        "\n{:MARGIN$}  █ admitted   ░ demand   ╌ limit   ^ stopped here",
        ""
    );
    out
}

fn draw_panel(panel: &Panel, out: &mut String) {
    let top = panel.top().max(1.0);
    let at_limit = row_of(panel.limit, top);
    for row in (0..ROWS).rev() {
        let mark = match row {
            _ if row == at_limit => short(panel.limit),
            0 => "0".to_owned(),
            _ if row == ROWS - 1 => short(top),
            _ => String::new(),
        };
        let line: String = (0..panel.demand.len())
            .map(|bin| cell(panel, bin, row, top))
            .collect();
        let _ = writeln!(out, "{mark:>MARGIN$} │{line}");
    }
    let stops = panel
        .stopped
        .iter()
        .map(|&count| if count > 0 { '^' } else { ' ' });
    let stops: String = stops.collect();
    if !stops.trim().is_empty() {
        let _ = writeln!(out, "{:>MARGIN$}  {}", "", stops.trim_end());
    }
}

/// The row that a number reaches into.
fn row_of(number: f64, top: f64) -> usize {
    let rows = (number / top * ROWS as f64).ceil() as usize;
    rows.clamp(1, ROWS) - 1
}

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

fn cell(panel: &Panel, bin: usize, row: usize, top: f64) -> char {
    let filled = |number: f64| {
        let eighths = (number / top * (ROWS * 8) as f64).round() as usize;
        eighths.saturating_sub(row * 8).min(8)
    };
    let (admitted, demand) = (filled(panel.admitted[bin]), filled(panel.demand[bin]));
    match (admitted, demand) {
        (0, _) if row == row_of(panel.limit, top) => '╌',
        (0, 1..) => '░',
        (eighths, _) => EIGHTHS[eighths],
    }
}

#[cfg(test)]
mod tests {
    use super::{Panel, draw_panel};

    #[test]
    fn a_panel_shows_what_was_admitted_what_was_asked_and_the_limit() {
        let panel = Panel {
            name: "rpm".to_owned(),
            subtitle: String::new(),
            axis: String::new(),
            demand: vec![0.0, 7.0, 14.0],
            admitted: vec![0.0, 7.0, 7.0],
            limit: 7.0,
            limit_label: String::new(),
            stopped: vec![0, 0, 3],
        };
        let mut out = String::new();
        draw_panel(&panel, &mut out);
        let expected = "
      14 │  ░
         │  ░
         │  ░
       7 │╌▄▄
         │ ██
         │ ██
       0 │ ██
            ^
";
        assert_eq!(format!("\n{out}"), expected);
    }
}
