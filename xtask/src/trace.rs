//! An hour of real calls before a provider that enforces its limit, by client: `proof/trace`.

use std::path::PathBuf;

use crate::command::{self, cargo, program, target_directory};
use crate::demo::TRACE;

const REQUIREMENTS: &str = "proof/trace/peers/requirements.txt";

/// `cargo xtask trace [--svg PATH] [--windows] [--seed N]`: the arguments are the program's own.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut trace = cargo(["run", "--quiet", "--package", "tidegate-trace", "--"]);
    trace
        .args(["--calls", TRACE])
        .arg("--python")
        .arg(python()?);
    command::run(trace.args(arguments))
}

/// An interpreter with the packages whose rows there are, installed if they are not there.
fn python() -> Result<PathBuf, String> {
    let venv = target_directory().join("trace/venv");
    let python = venv.join("bin/python");
    if !python.exists() {
        command::run(program("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    let mut pip = program(&python.display().to_string());
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    command::run(pip.args(["-r", REQUIREMENTS]))?;
    Ok(python)
}
