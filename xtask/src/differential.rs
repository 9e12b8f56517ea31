//! A store beside a plain reference, random command by command.

use crate::command::{self, cargo};

/// `cargo xtask differential [--commands N] [--seed N] [--store NAME] [--clients N]`: the
/// arguments are the example's own.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut run = cargo(["run", "--quiet", "--release"]);
    run.args(["--package", "tidegate-conformance"]);
    run.args(["--example", "differential", "--"]);
    command::run(run.args(arguments))
}
