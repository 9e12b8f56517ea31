//! Programs that nobody here wrote. Where one cannot be had, the test says so
//! and passes; with `TIDEGATE_REQUIRE_TOOLS=1` it fails. Other crates' tests use
//! this file as well.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each crate's tests use their own part"
)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// One at a time fetches what is missing, in whatever process its tests are.
fn fetching() -> File {
    let path = scratch("fetching.lock");
    let options = { File::options() }.create(true).append(true).open(&path);
    let file = options.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.lock().expect("a file can be locked");
    file
}

/// What `get` gives, or nothing, said aloud.
pub fn need<T>(tool: &str, get: impl FnOnce() -> Result<T, String>) -> Option<T> {
    let _one_at_a_time = fetching();
    match get() {
        Ok(tool) => Some(tool),
        Err(reason) if std::env::var_os("TIDEGATE_REQUIRE_TOOLS").is_some_and(|v| v == "1") => {
            panic!("{tool} is needed: {reason}")
        }
        Err(reason) => {
            eprintln!("skipped: {tool}: {reason}");
            None
        }
    }
}

/// A program of a Python package, from an environment of our own.
pub fn python(package: &str, program: &str) -> Option<PathBuf> {
    need(package, || {
        let program = environment().join("bin").join(program);
        if !program.exists() {
            install(&[package])?;
        }
        Ok(program)
    })
}

/// A Python that can import `modules`, which these packages have.
pub fn python_with(packages: &[&str], modules: &str) -> Option<PathBuf> {
    need(&packages.join(", "), || {
        let python = environment().join("bin/python");
        let import = format!("import {modules}");
        let imports = || run(Command::new(&python).args(["-c", &import]));
        if imports().is_err() {
            install(packages)?;
            imports()?;
        }
        Ok(python)
    })
}

/// Where Python packages are put: by all tests, of all protocols.
fn environment() -> PathBuf {
    scratch("python")
}

fn install(packages: &[&str]) -> Result<(), String> {
    let path = environment().display().to_string();
    run(Command::new("python3").args(["-m", "venv", &path]))?;
    let mut pip = Command::new(environment().join("bin/pip"));
    run(pip
        .args(["install", "--quiet", "--retries", "1"])
        .args(packages))
}

/// A program that is on the path.
pub fn on_path(program: &str, package: &str) -> Option<PathBuf> {
    need(program, || {
        // `wrk` tells its version and says that it has failed.
        match Command::new(program).arg("--version").output() {
            Ok(_) => Ok(PathBuf::from(program)),
            Err(error) => Err(format!("{error} (Debian package {package})")),
        }
    })
}

/// A program of the system's, or else of a package that is unpacked here.
pub fn system(program: &str, package: &str) -> Option<PathBuf> {
    need(program, || {
        let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
        let known = folders.map(|folder| Path::new(folder).join(program));
        let unpacked = scratch(package);
        let ours = ["usr/sbin", "usr/bin"].map(|folder| unpacked.join(folder).join(program));
        let all = || {
            known
                .iter()
                .chain(&ours)
                .find(|path| path.exists())
                .cloned()
        };
        if all().is_none() {
            std::fs::create_dir_all(&unpacked).map_err(|error| error.to_string())?;
            run(Command::new("apt-get")
                .args(["download", package])
                .current_dir(&unpacked))?;
            let unpack = "for package in *.deb; do dpkg -x \"$package\" .; done";
            run(Command::new("sh")
                .args(["-c", unpack])
                .current_dir(&unpacked))?;
        }
        all().ok_or_else(|| format!("{package} has no {program}"))
    })
}

/// A folder below the target directory.
pub fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", said(&output))),
    }
}

/// All that a program has printed.
pub fn said(output: &Output) -> String {
    let all = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&all).into_owned()
}
