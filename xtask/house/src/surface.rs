//! What a crate offers to others: the names that can be written after its own.

use std::collections::{BTreeSet, HashSet};

use crate::tree::Crate;

/// How many public names there are: of modules, types, functions, constants, each where
/// it is first reached; methods and fields are not counted.
pub fn names(found: &Crate) -> usize {
    let mut seen = HashSet::new();
    let mut names = BTreeSet::new();
    module(found, 0, "", &mut seen, &mut names);
    names.len()
}

fn module(
    found: &Crate,
    number: usize,
    path: &str,
    seen: &mut HashSet<usize>,
    names: &mut BTreeSet<String>,
) {
    if !seen.insert(number) {
        return;
    }
    let at = &found.modules[number];
    for (name, defined) in &at.defined {
        if !defined.is_public {
            continue;
        }
        let full = format!("{path}::{name}");
        if let (true, Some(child)) = (defined.is_module, at.children.get(name)) {
            module(found, *child, &full, seen, names);
        }
        names.insert(full);
    }
    for one in at.uses.iter().filter(|one| one.is_public) {
        if let Some(name) = &one.name {
            names.insert(format!("{path}::{name}"));
        }
    }
}
