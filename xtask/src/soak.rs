//! A paced load on every kind of policy, for as long as one likes: `proof/soak`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::command::{self, cargo, target_directory};

/// `cargo xtask soak [--seconds N] [--store memory:|file:PATH] [--rate N] [--picture PATH]`:
/// in memory, and then in a file, each with its picture in a folder of their own, unless a
/// store is named. Its exit code is the program's: 0 if all holds, 1 if not, 2 if the machine
/// does not keep up.
pub fn run(arguments: &[String]) -> ExitCode {
    let says = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if says("--help") || says("--store") {
        return soak(arguments).unwrap_or_else(failed);
    }
    if says("--picture") {
        return failed("name the --store that the --picture is of".to_owned());
    }
    both(arguments).unwrap_or_else(failed)
}

/// One store after the other; the second only if all holds in the first.
fn both(arguments: &[String]) -> Result<ExitCode, String> {
    let folder = own_folder()?;
    let path = |name: &str| folder.join(name).display().to_string();
    let stores = [
        ("memory:".to_owned(), path("memory.svg")),
        (format!("file:{}", path("soak.tidegate")), path("file.svg")),
    ];
    for (store, picture) in stores {
        let more = ["--store".to_owned(), store, "--picture".to_owned(), picture];
        let code = soak(&[arguments, &more].concat())?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    println!("pictures: {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Runs the program, as built for use.
fn soak(arguments: &[String]) -> Result<ExitCode, String> {
    let mut soak = cargo(["run", "--release", "--package", "tidegate-soak", "--"]);
    soak.args(arguments);
    let shown = command::show(&soak);
    println!("$ {shown}");
    let status = soak.status();
    let status = status.map_err(|error| format!("cannot run {shown}: {error}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map(ExitCode::from)
        .ok_or_else(|| format!("failed ({status}): {shown}"))
}

/// A folder with nothing in it.
fn own_folder() -> Result<PathBuf, String> {
    let folder = target_directory().join("soak");
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(told)?;
    }
    std::fs::create_dir_all(&folder).map_err(told)?;
    Ok(folder)
}

fn failed(why: String) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}
