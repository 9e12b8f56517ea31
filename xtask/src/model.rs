//! Every history of a few nodes that spend what they were granted: `proof/model`.

use crate::command::{self, cargo};

/// `cargo xtask model [--only PART] [--threads N] [--how]`: the arguments are the program's own.
pub fn run(arguments: &[String]) -> Result<(), String> {
    // Millions of states: built as what explores interleavings is.
    let mut model = cargo(["run", "--quiet", "--profile", "explore"]);
    model.args(["--package", "tidegate-model", "--"]);
    command::run(model.args(arguments))
}
