//! What is printed.

use std::io::Write;

use super::exit::{Outcome, Stop};

/// Prints a text with its last line ended.
pub fn print(text: &str) -> Outcome<()> {
    print_line(text.trim_end())
}

/// Prints a line.
pub fn print_line(text: &str) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}");
    written.map_err(|error| Stop::failed(format!("cannot print: {error}")))
}
