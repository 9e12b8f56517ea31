//! The layers of DESIGN.md, section 2, as cargo sees them; within crates, as the code says.

use crate::command::{cargo, output};
use crate::plan::LAYERS;
use crate::{deny, house};

/// Every listed crate imports only what it may, of others, too (`deny.toml`), and no file one
/// that imports it.
pub fn hold() -> Result<(), String> {
    let members = names(["tree", "--workspace", "--depth", "0", "--prefix", "none"])?;
    let listed = LAYERS
        .iter()
        .filter(|(name, _)| members.iter().any(|m| m == name));
    for (name, allowed) in listed {
        one(name, allowed)?;
        println!("{name:<20} {}", allowed.join(", "));
    }
    deny::hold()?;
    house::hold()
}

fn one(name: &str, allowed: &[&str]) -> Result<(), String> {
    let edges = ["--edges", "normal,build", "--all-features"];
    let tree = [
        "tree",
        "--package",
        name,
        "--depth",
        "1",
        "--prefix",
        "none",
    ];
    let imports = names([tree.as_slice(), edges.as_slice()].concat())?;
    let ours = imports
        .iter()
        .filter(|import| import.starts_with("tidegate"));
    let stray: Vec<_> = ours
        .filter(|i| *i != name && !allowed.contains(&i.as_str()))
        .collect();
    match stray.is_empty() {
        true => Ok(()),
        false => Err(format!("{name} must not import {stray:?}")),
    }
}

/// The first word of each line that cargo prints.
fn names<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, String> {
    let mut tree = cargo([]);
    tree.args(arguments);
    let text = output(&mut tree).ok_or("cargo tree failed")?;
    let words = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    Ok(words.map(str::to_owned).collect())
}
