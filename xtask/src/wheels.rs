//! Wheels of the Python package, and whether they work where they are installed.

use crate::command::{self, output, program, root, target_directory};
use crate::python;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What builds them, from PyPI: zig links against the C library of an old Linux.
const TOOLS: &[&str] = &["maturin==1.16.0", "ziglang==0.17.1"];

/// The oldest C library that each is for, by the target that Rust builds.
const KINDS: &[(&str, &str)] = &[
    ("x86_64-unknown-linux-gnu", "manylinux_2_17"),
    ("x86_64-unknown-linux-musl", "musllinux_1_2"),
];

/// Every CPython that one wheel (`abi3-py39`) is for, as far as they are tested.
const PYTHONS: &[&str] = &["3.9", "3.10", "3.11", "3.12", "3.13"];

/// What runs the package's tests, of a version for the oldest Python, too.
const PYTEST: &str = "pytest==8.4.2";

/// Tests of what has no wheels for every Python, or is the same in each: frameworks and Ray, the
/// SDKs that go through the gateway, what the pages show, the type checkers.
const OF_ONE_PYTHON: &[&str] = &[
    "frameworks",
    "gateway",
    "test_pages.py",
    "test_types.py",
    "test_workers_ray.py",
];

/// `cargo xtask wheels`: those that can be built here, each tried where it can be. What fails keeps
/// nothing else from being tried.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(word) = arguments.first() {
        return Err(format!(
            "cargo xtask wheels takes no arguments, not {word:?}"
        ));
    }
    println!(
        "no free-threaded wheel: abi3 is of builds with the lock; no such interpreter is tried"
    );
    let wheel = of_this_machine()?;
    println!("{}", wheel.display());
    let mut failed: Vec<String> = try_with_each(&wheel).err().into_iter().collect();
    failed.extend(try_from_a_clone().err());
    failed.extend(KINDS[1..].iter().filter_map(|kind| other(*kind).err()));
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n")),
    }
}

/// Tries it with every CPython that is here.
fn try_with_each(wheel: &Path) -> Result<(), String> {
    let tried = PYTHONS.iter().map(|version| try_out(version, wheel));
    let tried: Vec<Result<bool, String>> = tried.collect();
    if tried.iter().all(|tried| *tried == Ok(false)) {
        let versions = PYTHONS.join(", ");
        return Err(format!(
            "no wheel was tried: there is no Python of {versions}"
        ));
    }
    let failed: Vec<String> = tried.into_iter().filter_map(Result::err).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n")),
    }
}

/// The first command of the package's page, with what pip needs and nothing else.
fn try_from_a_clone() -> Result<(), String> {
    let venv = home().join("clone");
    fresh(&venv, "python3", &[])?;
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "./python",
    ]);
    pip.env("CARGO_TARGET_DIR", target_directory().join("python/clone"));
    command::run(pip.current_dir(root()))?;
    smoke(&venv)?;
    println!("installed from a clone");
    std::fs::remove_dir_all(&venv).map_err(|error| error.to_string())
}

/// A wheel that no interpreter here runs.
fn other((target, platform): (&str, &str)) -> Result<(), String> {
    match is_installed(target) {
        true => println!("{}", build(target, platform)?.display()),
        false => {
            println!("no {platform}: Rust has no {target} here (`rustup target add {target}`)")
        }
    }
    Ok(())
}

/// The wheel that this machine's own interpreters install, built for release.
pub fn of_this_machine() -> Result<PathBuf, String> {
    let (target, platform) = KINDS[0];
    build(target, platform)
}

/// An environment without anything but `packages`, made anew.
pub fn fresh(venv: &Path, python: &str, packages: &[&str]) -> Result<(), String> {
    command::run(program(python).args(["-m", "venv", "--clear"]).arg(venv))?;
    install(venv, packages)
}

pub fn install(venv: &Path, packages: &[&str]) -> Result<(), String> {
    if packages.is_empty() {
        return Ok(());
    }
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    command::run(pip.args(packages).current_dir(root()))
}

fn build(target: &str, platform: &str) -> Result<PathBuf, String> {
    let (venv, folder) = (home().join("builder"), home().join(platform));
    if !venv.join("bin/maturin").exists() {
        fresh(&venv, "python3", TOOLS)?;
    }
    // What an earlier state of the code was is not to be found there.
    let _ = std::fs::remove_dir_all(&folder);
    let mut maturin = Command::new(venv.join("bin/maturin"));
    maturin.args(["build", "--quiet", "--release", "--locked", "--zig"]);
    maturin.args(["--manifest-path", "python/Cargo.toml"]);
    maturin.args(["--target", target, "--compatibility", platform]);
    maturin.arg("--out").arg(&folder).current_dir(root());
    // It asks the Python that it finds for zig.
    let path = std::env::var("PATH").unwrap_or_default();
    maturin.env("PATH", format!("{}:{path}", text(&venv.join("bin"))));
    maturin.env(
        "CARGO_TARGET_DIR",
        target_directory().join("python/release"),
    );
    command::run(&mut maturin)?;
    let built = std::fs::read_dir(&folder).map_err(|error| error.to_string())?;
    let mut wheels = built.flatten().map(|entry| entry.path());
    wheels
        .next()
        .ok_or_else(|| format!("maturin left no wheel in {}", folder.display()))
}

/// Installs it where nothing else is, runs what a first user would, and then the package's tests.
/// `false`: there is no such Python here.
fn try_out(version: &str, wheel: &Path) -> Result<bool, String> {
    let Some(python) = interpreter(version) else {
        println!("not tried with Python {version}: it is not installed");
        return Ok(false);
    };
    let venv = home().join(format!("clean-{version}"));
    fresh(&venv, &python, &[text(wheel)])?;
    smoke(&venv)?;
    install(&venv, &[PYTEST])?;
    let mut tests = Command::new(venv.join("bin/pytest"));
    let ignored = OF_ONE_PYTHON.iter();
    tests.args(ignored.map(|path| format!("--ignore={path}")));
    // Beside the folder of the same name a program that a test starts would import that.
    tests.current_dir(root().join("python/tests"));
    python::beside_servers(tests.args(["-p", "no:cacheprovider"]))?;
    println!("tested with Python {version}");
    std::fs::remove_dir_all(&venv).map_err(|error| error.to_string())?;
    Ok(true)
}

/// Runs what a first user would.
fn smoke(venv: &Path) -> Result<(), String> {
    let mut smoke = Command::new(venv.join("bin/python"));
    // Isolated: what is installed is imported, and not the folder of the same name.
    smoke.arg("-I").arg(root().join("python/tests/smoke.py"));
    command::run(&mut smoke)
}

/// An interpreter of that version: on the path, or one of pyenv's.
fn interpreter(version: &str) -> Option<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let versions = std::fs::read_dir(Path::new(&home).join(".pyenv/versions"));
    let pyenv = versions
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let pyenv = pyenv.map(|path| text(&path.join("bin/python")).to_owned());
    let is_it = format!(
        "import sys; sys.exit(sys.version_info[:2] != tuple(map(int, '{version}'.split('.'))))"
    );
    let candidates = std::iter::once(format!("python{version}")).chain(pyenv);
    let mut candidates =
        candidates.filter(|python| output(program(python).args(["-c", &is_it])).is_some());
    candidates.next()
}

fn is_installed(target: &str) -> bool {
    let folder = output(program("rustc").args(["--print", "target-libdir", "--target", target]));
    folder.is_some_and(|folder| Path::new(folder.trim()).exists())
}

fn home() -> PathBuf {
    target_directory().join("python/wheels")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("target folders are text")
}
