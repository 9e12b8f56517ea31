//! Tidegate beside its peers. The peers are heavy, so `proof/bench` is a crate
//! apart, with a lock file of its own, and shares only the target directory.

use crate::command::{self, cargo, root, target_directory};
use crate::wheels;
use std::path::PathBuf;
use std::process::Command;

/// As the bench itself says it.
pub const HELP: &str = include_str!("../../proof/bench/src/help.txt");

/// As the command of that bench says it.
pub const STORES_HELP: &str = include_str!("../../proof/bench-stores/src/help.txt");

/// As the command of that bench says it.
pub const ENTITIES_HELP: &str = include_str!("../../proof/bench-entities/src/help.txt");

/// As the command of that bench says it.
pub const PYTHON_HELP: &str = include_str!("../../proof/bench/python/help.txt");

/// `cargo xtask bench`: the arguments are the bench's own, but for `server`,
/// `gateway`, `dynamodb`, `stores`, `tiers`, `entities` and `python`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.split_first() {
        Some((first, rest)) if first == "server" => crate::server::run(rest),
        Some((first, rest)) if first == "gateway" => crate::server::gateway::run(rest),
        Some((first, rest)) if first == "dynamodb" => crate::server::dynamodb::run(rest),
        Some((first, rest)) if first == "stores" => stores(rest),
        Some((first, rest)) if first == "tiers" => tiers(rest),
        Some((first, rest)) if first == "entities" => entities(rest),
        Some((first, rest)) if first == "python" => python(rest),
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

/// Decisions by grants, beside each decision asked of its store: rows of `stores`.
fn tiers(arguments: &[String]) -> Result<(), String> {
    let mut arguments = arguments.to_vec();
    match arguments.iter().position(|argument| argument == "--only") {
        Some(at) => {
            let rows = arguments.get_mut(at + 1).ok_or("--only TEXT")?;
            *rows = format!("tiers, {rows}");
        }
        None => arguments.extend(["--only".to_owned(), "tiers".to_owned()]),
    }
    stores(&arguments)
}

/// What it takes to find one of a million entities by its id.
fn entities(arguments: &[String]) -> Result<(), String> {
    let mut bench = cargo(["run", "--quiet", "--release"]);
    bench.args(["--package", "tidegate-bench-entities", "--"]);
    command::run(bench.args(arguments))
}

/// The Python package as it is installed, beside what else there is for Python.
fn python(arguments: &[String]) -> Result<(), String> {
    let wheel = wheels::of_this_machine()?;
    let tidegate = crate::server::built("tidegate-cli", "tidegate")?;
    let venv = target_directory().join("python/bench");
    let peers = ["--requirement", "proof/bench/python/requirements.txt"];
    match venv.join("bin/python").exists() {
        // One of before may lack what was added since.
        true => wheels::install(&venv, &peers)?,
        false => wheels::fresh(&venv, "python3", &peers)?,
    }
    let wheel = wheel.to_str().expect("target folders are text");
    wheels::install(&venv, &["--force-reinstall", "--no-deps", wheel])?;
    let mut bench = Command::new(venv.join("bin/python"));
    bench.arg(root().join("proof/bench/python/bench.py"));
    bench.env("TIDEGATE", tidegate);
    bench.env("TIDEGATE_GUARD", guard()?);
    command::run(bench.args(arguments))
}

/// The least that an extension's `with` block costs, built as the package is.
fn guard() -> Result<PathBuf, String> {
    let target = target_directory().join("python/guard");
    let mut build = cargo(["build", "--quiet", "--release", "--locked"]);
    build.args(["--manifest-path", "proof/bench/python/guard/Cargo.toml"]);
    command::run(build.env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join("release/libguard.so"))
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
