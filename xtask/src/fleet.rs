//! Real servers, two at a time on one store: the table of `proof/fleet`, and how long answers
//! take while a store stands still.

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

/// `cargo xtask paused [--seconds N] [--clients N] [--slack MS] [--program PATH]`: stops each store
/// that is a server of its own, and prints how long a crowd and those beside it wait; fails if that
/// is longer than they may, and the slack. By a program built for use, unless another is named.
pub fn paused(arguments: &[String]) -> Result<(), String> {
    let mut rest = arguments.to_vec();
    let named = rest.iter().position(|argument| argument == "--program");
    let named = named.map(|at| rest.drain(at..rest.len().min(at + 2)).nth(1));
    let program = match named {
        Some(Some(path)) => path,
        Some(None) => return Err("--program PATH".to_owned()),
        None => {
            command::run(&mut cargo([
                "build",
                "--release",
                "--package",
                "tidegate-cli",
            ]))?;
            let built = command::target_directory().join("release/tidegate");
            built.display().to_string()
        }
    };
    needs::provide()?;
    let mut fleet = cargo(["run", "--package", "tidegate-fleet", "--", "paused"]);
    fleet.args(rest).env(PROGRAM, program);
    command::run(test::requiring_all(&mut fleet))
}
