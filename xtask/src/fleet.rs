//! Real servers, two at a time on one store: the table of `proof/fleet`.

use crate::command::{self, cargo};
use crate::{needs, test};

/// The program under test, if it is not this build's own.
const PROGRAM: &str = "TIDEGATE";

/// `cargo xtask fleet [--program PATH]`: runs the table, and writes its page if the program
/// is this build's own.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut fleet = cargo(["run", "--package", "tidegate-fleet"]);
    match arguments {
        [] => {}
        [flag, path] if flag == "--program" => _ = fleet.env(PROGRAM, path),
        _ => return Err("cargo xtask fleet [--program PATH]".to_owned()),
    }
    needs::provide()?;
    command::run(test::requiring_all(&mut fleet))
}
