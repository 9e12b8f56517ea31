//! What would be published, tried before it is: packed, unpacked into a clean folder, and
//! the command installed from there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{self, cargo, program, target_directory};
use crate::manifest::{Manifest, published};

/// `cargo xtask package`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("cargo xtask package takes no arguments".to_owned());
    }
    let crates = published()?;
    pack(&crates)?;
    let folder = emptied(target_directory().join("packaged"))?;
    let version = version()?;
    for one in &crates {
        unpack(one, &version, &folder)?;
    }
    patch(&crates, &version, &folder)?;
    install(&folder, &version)?;
    try_it(&folder)
}

/// All at once: cargo packs them in order, and each sees those before it.
fn pack(crates: &[Manifest]) -> Result<(), String> {
    let mut pack = cargo(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    for one in crates {
        pack.args(["--package", &one.name]);
    }
    command::run(&mut pack)
}

fn version() -> Result<String, String> {
    let workspace = crate::manifest::read("Cargo.toml")?;
    let version = crate::manifest::value(&workspace, "workspace.package", "version");
    version.ok_or("Cargo.toml names no version".to_owned())
}

fn unpack(one: &Manifest, version: &str, folder: &Path) -> Result<(), String> {
    let packed = target_directory().join("package");
    let packed = packed.join(format!("{}-{version}.crate", one.name));
    let size = fs::metadata(&packed).map_err(|error| told(&packed, &error))?;
    println!("{:<20} {:>5} KB packed", one.name, size.len() / 1024);
    let mut tar = program("tar");
    tar.args(["--extract", "--gzip", "--file"]).arg(&packed);
    quietly(tar.arg("--directory").arg(folder))
}

/// What they import of each other lies beside them, and not at crates.io.
fn patch(crates: &[Manifest], version: &str, folder: &Path) -> Result<(), String> {
    let line = |one: &Manifest| {
        let path = folder.join(format!("{}-{version}", one.name));
        format!("{} = {{ path = {path:?} }}\n", one.name)
    };
    let lines: String = crates.iter().map(line).collect();
    let path = folder.join(".cargo");
    fs::create_dir_all(&path).map_err(|error| told(&path, &error))?;
    let path = path.join("config.toml");
    let text = format!("[patch.crates-io]\n{lines}");
    fs::write(&path, text).map_err(|error| told(&path, &error))
}

/// As one would from crates.io, but for the time that optimising takes.
fn install(folder: &Path, version: &str) -> Result<(), String> {
    let mut install = cargo(["install", "--quiet", "--debug", "--path"]);
    install.arg(format!("tidegate-cli-{version}"));
    install.arg("--root").arg(folder.join("installed"));
    install.env(
        "CARGO_TARGET_DIR",
        target_directory().join("packaged-build"),
    );
    command::run(install.current_dir(folder))
}

/// The command starts, and decides by a policy of its own.
fn try_it(folder: &Path) -> Result<(), String> {
    let tidegate = folder.join("installed/bin/tidegate");
    let tidegate = tidegate.display().to_string();
    command::run(program(&tidegate).arg("--version"))?;
    command::run(program(&tidegate).args(["policy", "check", "examples/llm-gateway.toml"]))?;
    let mut held = program(&tidegate);
    held.args(["run", "--store", "memory:", "--limit", "gpu=2"]);
    command::run(held.args(["--", "echo", "run within a lease"]))
}

fn quietly(command: &mut std::process::Command) -> Result<(), String> {
    let done = command.status().is_ok_and(|status| status.success());
    match done {
        true => Ok(()),
        false => Err(format!("failed: {}", command::show(command))),
    }
}

fn emptied(folder: PathBuf) -> Result<PathBuf, String> {
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| told(&folder, &error))?;
    }
    fs::create_dir_all(&folder).map_err(|error| told(&folder, &error))?;
    Ok(folder)
}

fn told(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
