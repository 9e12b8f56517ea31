//! libFuzzer on the stable compiler: its coverage passes are asked for by name,
//! and the crate `libfuzzer-sys` brings the driver.
//!
//! Committed seeds lie in `proof/fuzz/seeds/TARGET`, words that a target's input
//! is made of in `proof/fuzz/seeds/TARGET.dict`; what a test reads may be seeds, too. What a run finds goes into
//! the target directory; an input that fails is named at the end, ready to be
//! copied among the seeds once it is understood.

use crate::command::{self, cargo, output, program, root, target_directory};
use crate::plan::FUZZ_SECONDS;
use std::path::{Path, PathBuf};

/// Seeds that are vectors of a test: of a target, in a folder.
const MORE_SEEDS: &[(&str, &str)] = &[("llm", "llm/tests/headers/recorded")];

const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg",
    "fuzzing",
];

/// Every target for so long.
pub fn all(seconds: u64) -> Result<(), String> {
    fuzz(&targets()?, seconds)
}

/// `cargo xtask fuzz [--seconds N] [--target NAME]`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut seconds = FUZZ_SECONDS;
    let mut chosen = targets()?;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let value = arguments
            .next()
            .ok_or(format!("{argument} needs a value"))?;
        match argument.as_str() {
            // The fuzzer takes 0 for "for ever".
            "--seconds" => seconds = number(value)?.max(1),
            "--target" if chosen.contains(value) => chosen = vec![value.clone()],
            "--target" => return Err(format!("no target {value}; there are {chosen:?}")),
            other => return Err(format!("unknown argument {other}")),
        }
    }
    fuzz(&chosen, seconds)
}

pub fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

/// One for each file in `proof/fuzz/targets`.
fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("proof/fuzz/targets");
    let entries = std::fs::read_dir(&folder).map_err(|error| named(&folder, &error))?;
    let stem = |entry: std::fs::DirEntry| Some(entry.path().file_stem()?.to_str()?.to_owned());
    let mut targets: Vec<String> = entries.flatten().filter_map(stem).collect();
    targets.sort();
    Ok(targets)
}

fn fuzz(targets: &[String], seconds: u64) -> Result<(), String> {
    let host = host()?;
    build(&host)?;
    let binaries = build_directory().join(host).join("release");
    targets
        .iter()
        .try_for_each(|target| one(&binaries, target, seconds))
}

fn build(host: &str) -> Result<(), String> {
    // With a named target the flags reach no build script and no macro.
    let mut build = cargo(["build", "--release", "--bins"]);
    build.args(["--manifest-path", "proof/fuzz/Cargo.toml", "--target", host]);
    build.env("CARGO_TARGET_DIR", build_directory());
    command::run(build.env("RUSTFLAGS", FLAGS.join(" ")))
}

fn one(binaries: &Path, target: &str, seconds: u64) -> Result<(), String> {
    let found = made(build_directory().join("corpus").join(target))?;
    let failures = made(build_directory().join("failures").join(target))?;
    let mut fuzzer = program(&binaries.join(target).to_string_lossy());
    fuzzer.arg(format!("-max_total_time={seconds}"));
    fuzzer.arg(format!("-artifact_prefix={}/", failures.display()));
    fuzzer.args([
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=1",
    ]);
    let seeds = root().join("proof/fuzz/seeds").join(target);
    let words = seeds.with_extension("dict");
    if words.is_file() {
        fuzzer.arg(format!("-dict={}", words.display()));
    }
    fuzzer.arg(found);
    let more = MORE_SEEDS.iter().filter(|(of, _)| *of == target);
    let folders = more.map(|(_, folder)| root().join(folder));
    fuzzer.args(
        Some(seeds)
            .into_iter()
            .chain(folders)
            .filter(|seeds| seeds.is_dir()),
    );
    command::run(&mut fuzzer)
}

fn made(folder: PathBuf) -> Result<PathBuf, String> {
    std::fs::create_dir_all(&folder).map_err(|error| named(&folder, &error))?;
    Ok(folder)
}

fn build_directory() -> PathBuf {
    target_directory().join("fuzz")
}

fn host() -> Result<String, String> {
    let version = output(program("rustc").arg("-vV")).ok_or("rustc does not answer")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or("rustc names no host".to_owned())
}

fn named(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
