//! Which file takes what from which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::tree::{Crate, Module};

/// From file to file, with the names that the first takes from the second.
pub type Imports = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// No chain of re-exports is longer.
const DEEPEST: usize = 16;

/// Where a path leads.
enum Target {
    Module(usize),
    /// A name that this module defines.
    Name(usize, String),
}

/// All imports within the crate.
pub fn of(found: &Crate) -> Imports {
    let mut imports = Imports::new();
    for (number, module) in found.modules.iter().enumerate() {
        let uses = module.uses.iter().map(|one| {
            let mut path = one.path.clone();
            if one.name.is_none() {
                path.push("*".to_owned());
            }
            path
        });
        for path in uses.chain(module.paths.iter().cloned()) {
            let Some((definer, name)) = definer(found, number, &path) else {
                continue;
            };
            let (from, to) = (&module.file, &found.modules[definer].file);
            if from != to {
                let names = imports.entry((from.clone(), to.clone())).or_default();
                names.insert(name);
            }
        }
    }
    imports
}

/// The module that defines what the path names, and its name there; nothing if that is no
/// module of the crate.
pub fn definer(found: &Crate, from: usize, path: &[String]) -> Option<(usize, String)> {
    if path.last().is_some_and(|last| last == "*") {
        return match lead(found, from, &path[..path.len() - 1], DEEPEST)? {
            Target::Module(module) => Some((module, "*".to_owned())),
            Target::Name(module, name) => Some((module, name)),
        };
    }
    match lead(found, from, path, DEEPEST)? {
        Target::Name(module, name) => Some((module, name)),
        // Who takes a module takes something of it by a longer path.
        Target::Module(_) => None,
    }
}

/// The module that a path leads to; an empty one to where it begins.
pub fn module(found: &Crate, from: usize, path: &[String]) -> Option<usize> {
    match lead(found, from, path, DEEPEST)? {
        Target::Module(module) => Some(module),
        Target::Name(..) => None,
    }
}

fn lead(found: &Crate, from: usize, path: &[String], depth: usize) -> Option<Target> {
    let depth = depth.checked_sub(1)?;
    let mut at = from;
    let mut words = path;
    while let Some((word, rest)) = words.split_first() {
        let module = &found.modules[at];
        let next = match word.as_str() {
            "crate" => Some(0),
            "self" => Some(at),
            "super" => Some(module.parent?),
            _ => module.children.get(word).copied(),
        };
        if let Some(next) = next {
            (at, words) = (next, rest);
            continue;
        }
        return if module.defined.contains_key(word) {
            Some(Target::Name(at, word.clone()))
        } else {
            let by = reexported(found, at, module, word, depth)?;
            match by {
                Target::Module(next) if !rest.is_empty() => lead(found, next, rest, depth),
                target => Some(target),
            }
        };
    }
    Some(Target::Module(at))
}

/// Where a name leads that the module imports.
fn reexported(
    found: &Crate,
    at: usize,
    module: &Module,
    word: &str,
    depth: usize,
) -> Option<Target> {
    let named = module
        .uses
        .iter()
        .filter(|one| one.name.as_deref() == Some(word));
    for one in named {
        // `use name;` beside a crate of that name would lead to itself.
        if one.path.first().is_some_and(|first| first == word) && one.path.len() == 1 {
            continue;
        }
        if let Some(target) = lead(found, at, &one.path, depth) {
            return Some(target);
        }
    }
    let globs = module.uses.iter().filter(|one| one.name.is_none());
    for one in globs {
        let Some(Target::Module(next)) = lead(found, at, &one.path, depth) else {
            continue;
        };
        if next != at
            && let Some(target) = lead(found, next, &[word.to_owned()], depth)
        {
            return Some(target);
        }
    }
    None
}
