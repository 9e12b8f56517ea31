//! What a crate offers to others: the names that can be written after its own.

use std::collections::{BTreeSet, HashSet};

use crate::tree::Crate;

/// The public names, one a line, each followed by what can be written after it.
pub fn listing(found: &Crate) -> String {
    let mut names = BTreeSet::new();
    module(found, 0, "", &mut HashSet::new(), &mut names);
    let mut lines = String::new();
    for name in names {
        let name = name.trim_start_matches("::");
        lines += name;
        lines.push('\n');
        let last = name.rsplit("::").next().unwrap_or(name);
        let modules = found.modules.iter();
        let members: BTreeSet<_> = modules
            .filter_map(|at| at.members.get(last))
            .flatten()
            .collect();
        for member in members {
            lines += &format!("    {member}\n");
        }
    }
    lines
}

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
