//! Four gateways on one store spend one budget: `proof/race`.

use crate::command::{self, cargo};
use crate::{needs, test};

/// `cargo xtask race [--store NAME] [--round NAME] [--calls N]`: the arguments are the program's own.
pub fn run(arguments: &[String]) -> Result<(), String> {
    needs::provide()?;
    let mut race = cargo(["run", "--quiet", "--package", "tidegate-race", "--"]);
    command::run(test::requiring_all(race.args(arguments)))
}
