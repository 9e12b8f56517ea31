//! Real servers, two at a time on one store: the table of `proof/fleet`, and how long answers
//! take while a store stands still.

use std::path::PathBuf;

use crate::checkout::Checkout;
use crate::command::{self, cargo, target_directory};
use crate::{needs, test};

/// The program under test, if it is not this build's own.
const PROGRAM: &str = "TIDEGATE";

/// The program of the second server of each pair.
const BESIDE: &str = "TIDEGATE_BESIDE";

/// `cargo xtask fleet [--program PATH] [--beside COMMIT]`: runs the table, and writes its page if
/// both servers of a pair are this build's own.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut fleet = cargo(["run", "--package", "tidegate-fleet"]);
    let mut beside = None;
    for pair in arguments.chunks(2) {
        match pair {
            [flag, path] if flag == "--program" => _ = fleet.env(PROGRAM, path),
            [flag, commit] if flag == "--beside" => beside = Some(commit),
            _ => return Err("cargo xtask fleet [--program PATH] [--beside COMMIT]".to_owned()),
        }
    }
    if let Some(commit) = beside {
        fleet.env(BESIDE, built_at(commit)?);
    }
    needs::provide()?;
    command::run(test::requiring_all(&mut fleet))
}

/// The program of another commit.
fn built_at(commit: &str) -> Result<PathBuf, String> {
    let (checkout, target) = (Checkout::of(commit)?, target_directory().join("beside"));
    let mut build = cargo(["build", "--package", "tidegate-cli", "--bin", "tidegate"]);
    build.args(["--features", "dynamodb"]);
    build.current_dir(checkout.folder());
    build.env("CARGO_TARGET_DIR", &target);
    command::run(&mut build)?;
    Ok(target.join("debug/tidegate"))
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
            let built = target_directory().join("release/tidegate");
            built.display().to_string()
        }
    };
    needs::provide()?;
    let mut fleet = cargo(["run", "--package", "tidegate-fleet", "--", "paused"]);
    fleet.args(rest).env(PROGRAM, program);
    command::run(test::requiring_all(&mut fleet))
}
