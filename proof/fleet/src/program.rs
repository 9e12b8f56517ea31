//! The program under test: the one that `TIDEGATE` names, or this build's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// If this is set, it is the path of the program: another version, say.
pub const NAMED: &str = "TIDEGATE";

/// If this is set, the second server of each pair is of the program there: an earlier version, as
/// during a deployment.
pub const BESIDE: &str = "TIDEGATE_BESIDE";

/// The programs of a pair: `first`, and the one [beside](BESIDE) it, which is the same unless named.
#[must_use]
pub fn pair(first: PathBuf) -> [PathBuf; 2] {
    let beside = std::env::var_os(BESIDE).map(PathBuf::from);
    let beside = beside.unwrap_or_else(|| first.clone());
    [first, beside]
}

/// Where the program is; of this build, built first unless it is newer than all that it
/// was made of.
///
/// # Errors
/// If it does not build, or this program's own place is not known.
pub fn program() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(NAMED) {
        return Ok(named.into());
    }
    let own = own()?;
    if !is_current(&own) {
        build(&own)?;
    }
    Ok(own)
}

/// Beside this program, or above the folder of the tests.
fn own() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut folder = here.parent().ok_or("no folder")?;
    if folder.ends_with("deps") {
        folder = folder.parent().ok_or("no folder")?;
    }
    Ok(folder.join("tidegate"))
}

/// What it is built with beside its default features, and a file that this brings.
const FEATURE: &str = "dynamodb";
const OF_FEATURE: &str = "stores/dynamodb/src/lib.rs";

/// Whether it has every store, and is newer than each file that its build has noted. One that was
/// built after that note, as `cargo test` builds it, may have been built otherwise.
fn is_current(program: &Path) -> bool {
    let made = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let note = program.with_extension("d");
    let noted = fs::read_to_string(&note);
    let (Some(built), Ok(noted)) = (made(program), noted) else {
        return false;
    };
    if made(&note).is_none_or(|noted_at| noted_at < built) {
        return false;
    }
    let (_, sources) = noted.split_once(": ").unwrap_or_default();
    let older = |path| made(Path::new(path)).is_some_and(|at: SystemTime| at <= built);
    sources.contains(OF_FEATURE) && sources.split_whitespace().all(older)
}

fn build(program: &Path) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut build = Command::new(cargo);
    build.args(["build", "--package", "tidegate-cli", "--bin", "tidegate"]);
    build.args(["--features", FEATURE]);
    if program
        .parent()
        .is_some_and(|folder| folder.ends_with("release"))
    {
        build.arg("--release");
    }
    let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    match built.map_err(|error| format!("cargo does not run: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("tidegate-cli does not build: {status}")),
    }
}
