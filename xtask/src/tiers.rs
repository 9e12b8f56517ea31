//! Fleets that decide by grants, in virtual time: `proof/tiers`.

use crate::command::{self, cargo};

/// `cargo xtask tiers [--histories N] [--nodes N,N] [--kinds N] [--svg PATH]`: the arguments are
/// the program's own.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut fleets = cargo(["run", "--quiet", "--profile", "explore"]);
    fleets.args(["--package", "tidegate-tier-fleets", "--"]);
    command::run(fleets.args(arguments))
}
