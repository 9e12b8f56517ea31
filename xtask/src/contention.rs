//! Eight processes at one hot key of each store, for as long as one likes.

use crate::command::{self, cargo};
use crate::{fuzz, needs, test};

const DEFAULT_SECONDS: u64 = 60;

/// `cargo xtask contention [--seconds N]`: one store after the other, for so long each.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let seconds = seconds(arguments)?;
    needs::provide()?;
    let mut exact = cargo(["test", "--quiet", "--release"]);
    exact.args(["--package", "tidegate-contention", "--test", "exact"]);
    // What was granted and seen is printed.
    exact.args(["--", "--nocapture", "--test-threads", "1"]);
    exact.env("TIDEGATE_CONTENTION_SECONDS", seconds.to_string());
    command::run(test::requiring_all(&mut exact))
}

fn seconds(arguments: &[String]) -> Result<u64, String> {
    match arguments {
        [] => Ok(DEFAULT_SECONDS),
        [flag, value] if flag == "--seconds" => fuzz::number(value),
        _ => Err("cargo xtask contention [--seconds N]".to_owned()),
    }
}
