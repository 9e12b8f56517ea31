//! The house, drawn from the code by `xtask/house`.

use crate::command::{self, cargo};
use crate::plan::OUTSIDE;

/// `cargo xtask house`: the table of the crates, and the files that import each other.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut house = cargo(["run", "--quiet", "--package", "tidegate-house", "--"]);
    command::run(house.args(arguments))
}

/// The crates and their folders, as ARCHITECTURE.md shows them.
const PICTURE: &str = "docs/house.svg";

/// What the library offers, name by name; a change of it is seen in review.
const API: &str = "proof/api/tidegate.txt";

/// What its words mean.
const GLOSSARY: &str = "docs/reference/glossary.md";

/// No file imports one that imports it, in crates outside of the workspace, too; the picture is
/// of today, and the library offers what is written, by names that the glossary explains.
pub fn hold() -> Result<(), String> {
    run(&["--check", "--why", "--svg", PICTURE].map(str::to_owned))?;
    for folder in OUTSIDE {
        let manifest = format!("{folder}/Cargo.toml");
        run(&["--check", "--why", "--manifest-path", &manifest].map(str::to_owned))?;
    }
    let api = ["tidegate", "--api", API, "--glossary", GLOSSARY, "--check"];
    run(&api.map(str::to_owned))
}
