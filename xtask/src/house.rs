//! The house, drawn from the code by `xtask/house`.

use crate::command::{self, cargo};

/// `cargo xtask house`: the table of the crates, and the files that import each other.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut house = cargo(["run", "--quiet", "--package", "tidegate-house", "--"]);
    command::run(house.args(arguments))
}

/// What the library offers, name by name; a change of it is seen in review.
const API: &str = "proof/api/tidegate.txt";

/// No file imports one that imports it, and the library offers what is written.
pub fn hold() -> Result<(), String> {
    run(&["--check".to_owned(), "--why".to_owned()])?;
    run(&["tidegate", "--api", API, "--check"].map(str::to_owned))
}
