//! Four gateways on one store spend one budget: `proof/race`.

use crate::command::{self, cargo};
use crate::server::peers;
use crate::{needs, test};

/// `cargo xtask race [--store NAME] [--round NAME] [--calls N]`: the arguments are the program's own,
/// but for `--peer litellm`: that is installed, and its program named.
pub fn run(arguments: &[String]) -> Result<(), String> {
    needs::provide()?;
    let mut arguments = arguments.to_vec();
    if let Some(at) = arguments.iter().position(|word| word == "--peer") {
        match arguments.get(at + 1).map(|name| &**name) {
            Some("litellm") => {}
            other => return Err(format!("--peer litellm, and not {other:?}")),
        }
        let program = peers::litellm()?.display().to_string();
        arguments.splice(at..at + 2, ["--litellm".to_owned(), program]);
    }
    let mut race = cargo(["run", "--quiet", "--package", "tidegate-race", "--"]);
    command::run(test::requiring_all(race.args(arguments)))
}
