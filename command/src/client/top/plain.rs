//! A frame as text.

use std::fmt::Write;

use super::frame::{AWAY, COLUMNS, Frame};

/// The frame in columns: policies, their sum, and who is refused most.
pub fn text(frame: &Frame) -> String {
    let mut lines = vec![COLUMNS.map(str::to_owned)];
    lines.extend(frame.rows.iter().map(super::frame::Row::cells));
    lines.push(frame.total.cells());
    let widths = frame.widths().map(usize::from);
    let mut text = String::new();
    for cells in &lines {
        let _ = write!(text, "{:width$}", cells[0], width = widths[0]);
        for (cell, width) in cells.iter().zip(widths).skip(1) {
            // Writing to a string does not fail.
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    if frame.is_store_away {
        let _ = writeln!(text, "\n{AWAY}");
    }
    if !frame.denied.is_empty() {
        text += "\nREFUSED MOST (since the start)\n";
    }
    for denied in &frame.denied {
        let _ = writeln!(
            text,
            "{:>10}  {}  {}",
            denied.count, denied.policy, denied.key
        );
    }
    text
}
