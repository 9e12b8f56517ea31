//! The crates of the workspace, as cargo knows them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// A crate of the workspace.
#[derive(Debug)]
pub struct Package {
    pub name: String,
    /// The folder of its `Cargo.toml`.
    pub folder: PathBuf,
    /// The first file of its library, else of its program.
    pub roots: Vec<PathBuf>,
    /// The names of all that it needs beside tests.
    pub needs: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Described>,
}

#[derive(Deserialize)]
struct Described {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
    dependencies: Vec<Need>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Need {
    name: String,
    kind: Option<String>,
}

/// All of them, by name, of the workspace of `manifest` or of the current folder.
pub fn packages(manifest: Option<&Path>) -> Result<Vec<Package>, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    if let Some(manifest) = manifest {
        cargo.arg("--manifest-path").arg(manifest);
    }
    let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata failed: {said}"));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let mut packages: Vec<_> = metadata.packages.into_iter().map(package).collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

fn package(described: Described) -> Package {
    let is = |target: &Target, kind: &str| target.kind.iter().any(|known| known == kind);
    let roots = described
        .targets
        .iter()
        .filter(|target| ["lib", "cdylib", "bin"].iter().any(|kind| is(target, kind)))
        .map(|target| target.src_path.clone())
        .collect();
    let needs = described.dependencies.into_iter();
    let mut needs: Vec<_> = needs
        .filter(|need| need.kind.is_none())
        .map(|need| need.name)
        .collect();
    needs.sort();
    needs.dedup();
    let folder = described.manifest_path.parent();
    Package {
        name: described.name,
        folder: folder.unwrap_or(&described.manifest_path).to_owned(),
        roots,
        needs,
    }
}
