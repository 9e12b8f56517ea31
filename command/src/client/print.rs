//! What is printed.

use super::exit::{Outcome, Stop};
use crate::output;

/// Prints a text with its last line ended.
pub fn print(text: &str) -> Outcome<()> {
    print_line(text.trim_end())
}

/// Prints a line.
pub fn print_line(text: &str) -> Outcome<()> {
    print_for_reader(text).map(drop)
}

/// Prints a line, and answers whether somebody reads on.
pub fn print_for_reader(line: &str) -> Outcome<bool> {
    let printed = output::print(&format!("{line}\n"));
    printed.map_err(|error| Stop::failed(format!("cannot print: {error}")))
}
