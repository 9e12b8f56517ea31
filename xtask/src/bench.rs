//! Tidegate beside its peers. The peers are heavy, so `proof/bench` is a crate
//! apart, with a lock file of its own, and shares only the target directory.

use crate::command::{self, cargo, target_directory};
use std::process::Command;

/// As the bench itself says it.
pub const HELP: &str = include_str!("../../proof/bench/src/help.txt");

/// As the command of that bench says it.
pub const STORES_HELP: &str = include_str!("../../proof/bench-stores/src/help.txt");

/// `cargo xtask bench`: the arguments are the bench's own, but for `server` and
/// `stores`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.split_first() {
        Some((first, rest)) if first == "server" => crate::server::run(rest),
        Some((first, rest)) if first == "stores" => stores(rest),
        _ => command::run(bench().args(arguments)),
    }
}

/// Stores beyond a network, beside the least that their servers could be asked.
fn stores(arguments: &[String]) -> Result<(), String> {
    crate::needs::provide()?;
    let mut bench = cargo(["run", "--quiet", "--release"]);
    bench.args(["--package", "tidegate-bench-stores", "--"]);
    command::run(bench.args(arguments))
}

/// The rows that count allocations; they fail where one is too many.
pub fn allocations() -> Result<(), String> {
    let json = target_directory().join("allocations.json");
    let mut bench = bench();
    bench.args(["--quick", "--only", "allocations", "--json"]);
    command::run(bench.arg(json))
}

fn bench() -> Command {
    let mut bench = cargo(["run", "--quiet", "--release"]);
    bench.args(["--manifest-path", "proof/bench/Cargo.toml"]);
    bench.env("CARGO_TARGET_DIR", target_directory().join("bench"));
    bench.arg("--");
    bench
}
