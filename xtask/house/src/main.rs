//! The house, drawn from the code: crates and files, who imports whom, and which files
//! import each other.
//!
//! | room | holds |
//! |---|---|
//! | `workspace` | the crates, as cargo knows them |
//! | `tree` | the modules of one crate: what each defines and imports |
//! | `imports` | which file takes what from which |
//! | `circles` | files that import each other |
//! | `surface`, `members` | what a crate offers to others |
//! | `names` | which of its names the glossary does not explain |
//! | `page` | the table, and the picture |

mod circles;
mod imports;
mod members;
mod names;
mod page;
mod surface;
mod tree;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::tree::Crate;

/// Shows the crates of the workspace, their sizes, and which of their files import each
/// other.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask house", version, about)]
struct Args {
    /// Only these crates (default: all of the workspace).
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
    /// The workspace is this `Cargo.toml`'s (default: that of the current folder).
    #[arg(long, value_name = "FILE")]
    manifest_path: Option<PathBuf>,
    /// Write the picture of the crates and their folders here, as SVG; with `--check`, exit
    /// with 1 if FILE shows another.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Say what each file of a circle takes from the next.
    #[arg(long)]
    why: bool,
    /// Exit with 1 if files import each other.
    #[arg(long)]
    check: bool,
    /// Show what the crate offers to others, and nothing else; with `--check`, exit with 1
    /// if FILE says otherwise, and without it write FILE.
    #[arg(long, value_name = "FILE")]
    api: Option<PathBuf>,
    /// With `--api` and `--check`: exit with 1 if the crate offers a name that this
    /// glossary does not explain.
    #[arg(long, value_name = "FILE", requires = "api")]
    glossary: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is well, if that is asked.
fn run(args: &Args) -> Result<bool, String> {
    let packages = workspace::packages(args.manifest_path.as_deref())?;
    if let Some(unknown) = args
        .crates
        .iter()
        .find(|name| packages.iter().all(|package| package.name != **name))
    {
        return Err(format!("the workspace has no crate {unknown}"));
    }
    if let Some(file) = &args.api {
        return api(args, &packages, file);
    }
    let is_asked = |name: &String| args.crates.is_empty() || args.crates.contains(name);
    let mut rows = Vec::new();
    let mut in_circles = 0;
    for package in packages.iter().filter(|package| is_asked(&package.name)) {
        let crates = package
            .roots
            .iter()
            .map(|root| Crate::read(root))
            .collect::<Result<Vec<_>, _>>()?;
        let mut circles = Vec::new();
        for one in &crates {
            let imports = imports::of(one);
            circles.extend(circles::of(imports));
        }
        in_circles += circles
            .iter()
            .map(|circle| circle.files.len())
            .sum::<usize>();
        rows.push(page::Row::new(package, &crates, circles));
    }
    page::print(&rows, args.why);
    let mut is_current = true;
    if let Some(path) = &args.svg {
        let picture = page::picture(&packages)?;
        if !args.check {
            write(path, &picture)?;
        } else if read(path)? != picture {
            is_current = false;
            eprintln!(
                "the picture is out of date: cargo xtask house --svg {}",
                path.display()
            );
        }
    }
    Ok(!args.check || (in_circles == 0 && is_current))
}

/// Writes what a crate offers, or compares it with what is written.
fn api(args: &Args, packages: &[workspace::Package], file: &Path) -> Result<bool, String> {
    let [name] = &args.crates[..] else {
        return Err("--api takes one CRATE".to_owned());
    };
    let package = packages.iter().find(|package| package.name == *name);
    if package.is_none_or(|package| package.roots.is_empty()) {
        return Err(format!("{name} has no library"));
    }
    let mut crates = surface::Crates::new();
    for package in packages {
        if let Some(root) = package.roots.first() {
            crates.insert(package.name.replace('-', "_"), Crate::read(root)?);
        }
    }
    let listing = surface::listing(&crates, &name.replace('-', "_"));
    if !args.check {
        return write(file, &listing).map(|()| true);
    }
    let known = read(file)?;
    for (mark, one, other) in [("-", &known, &listing), ("+", &listing, &known)] {
        let others: std::collections::HashSet<_> = other.lines().collect();
        let lines = one.lines().filter(|line| !others.contains(line));
        lines.for_each(|line| println!("{mark} {line}"));
    }
    if known != listing {
        eprintln!(
            "what {name} offers has changed; if it is meant: cargo xtask house {name} --api {}",
            file.display()
        );
    }
    let glossary = args.glossary.as_deref();
    let is_explained = glossary.map_or(Ok(true), |glossary| is_explained(&listing, glossary))?;
    Ok(known == listing && is_explained)
}

/// Whether the glossary explains every name, and none has a retired word; says which.
fn is_explained(listing: &str, glossary: &Path) -> Result<bool, String> {
    let unexplained = names::unexplained(listing, &read(glossary)?);
    for name in &unexplained {
        eprintln!(
            "no word of {0} explains the public name `{name}`: take a word of its first table, or add \
             a line to its second, such as\n| `{name}` | what it is, in a few words |",
            glossary.display()
        );
    }
    let retired = names::retired(listing);
    for (name, better) in &retired {
        eprintln!("the public name `{name}` has a word that was retired: {better}");
    }
    Ok(unexplained.is_empty() && retired.is_empty())
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))
}
