//! What a crate offers to others: the names that can be written after its own.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::imports;
use crate::tree::{Crate, Use};

/// Crates by the names that code gives them (`tidegate_core`).
pub type Crates = BTreeMap<String, Crate>;

/// No chain of re-exports from crate to crate is longer.
const DEEPEST: usize = 16;

/// Where something is defined: in which crate, which module of it, and as what.
type Origin<'c> = (&'c str, usize, String);

/// The public names of one of `crates`, one a line, each followed by what can be written
/// after it, also where another of them defines it.
pub fn listing(crates: &Crates, name: &str) -> String {
    let found = &crates[name];
    let mut names = BTreeMap::new();
    module(found, 0, "", &mut HashSet::new(), &mut names);
    let members = members(crates);
    let mut lines = String::new();
    for (full, (at, path)) in names {
        lines += full.trim_start_matches("::");
        lines.push('\n');
        let origin = origin(crates, name, at, &path, DEEPEST);
        let of = origin.and_then(|origin| members.get(&origin));
        for member in of.into_iter().flatten() {
            lines += &format!("    {member}\n");
        }
    }
    lines
}

/// How many public names there are: of modules, types, functions, constants, each where
/// it is first reached; methods and fields are not counted.
pub fn names(found: &Crate) -> usize {
    let mut names = BTreeMap::new();
    module(found, 0, "", &mut HashSet::new(), &mut names);
    names.len()
}

/// A public name, with the module that has it and the path that leads to it from there.
type Names = BTreeMap<String, (usize, Vec<String>)>;

fn module(found: &Crate, number: usize, path: &str, seen: &mut HashSet<usize>, names: &mut Names) {
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
        names.insert(full, (number, vec![name.clone()]));
    }
    for one in at.uses.iter().filter(|one| one.is_public) {
        if let Some(name) = &one.name {
            names.insert(format!("{path}::{name}"), (number, one.path.clone()));
        }
    }
}

/// What can be written after each type of these crates.
fn members(crates: &Crates) -> BTreeMap<Origin<'_>, BTreeSet<&String>> {
    let mut members: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (name, found) in crates {
        for (number, module) in found.modules.iter().enumerate() {
            for (path, of) in &module.members {
                if let Some(origin) = origin(crates, name, number, path, DEEPEST) {
                    members.entry(origin).or_default().extend(of);
                }
            }
        }
    }
    members
}

/// Where that is defined to which `path` leads from a module.
fn origin<'c>(
    crates: &'c Crates,
    name: &str,
    from: usize,
    path: &[String],
    depth: usize,
) -> Option<Origin<'c>> {
    let depth = depth.checked_sub(1)?;
    let (name, found) = crates.get_key_value(name)?;
    let (first, rest) = path.split_first()?;
    if let Some((definer, defined)) = imports::definer(found, from, path) {
        return Some((name, definer, defined));
    }
    if !rest.is_empty() && crates.contains_key(first) {
        return origin(crates, first, 0, rest, depth);
    }
    // The last module on the way has it of another crate.
    let (last, before) = path.split_last()?;
    let at = imports::module(found, from, before)?;
    let mut uses = found.modules[at].uses.iter();
    let has = |one: &&Use| one.name.as_ref() == Some(last);
    let named = uses.find(has);
    let by_another = named.and_then(|one| origin(crates, name, at, &one.path, depth));
    // What nothing there defines or imports, a macro makes.
    by_another.or_else(|| Some((name, at, last.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crates(all: &[(&str, &str)]) -> Crates {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |(name, code): &(&str, &str)| {
            let file = folder.path().join(format!("{name}.rs"));
            std::fs::write(&file, code).expect("a file");
            ((*name).to_owned(), Crate::read(&file).expect("sound code"))
        };
        all.iter().map(read).collect()
    }

    #[test]
    fn a_type_has_its_own_members_and_none_of_another_type_of_that_name() {
        let code = "
            pub mod fair {
                pub trait Limits { }
                mod inner { impl super::Queue { pub fn push(&self) {} } }
                pub struct Queue;
                made! { pub struct Pending; }
                impl Pending { pub fn wait(self) {} }
            }
            mod workers {
                pub struct Limits { pub pool: u8 }
                impl Limits { pub fn check(&self) {} }
            }
        ";
        let code = format!("pub use fair::Pending;{code}");
        let listed =
            "Pending\n    fn wait(self)\nfair\nfair::Limits\nfair::Queue\n    fn push(&self)\n";
        assert_eq!(listing(&crates(&[("ours", &code)]), "ours"), listed);
    }

    #[test]
    fn a_type_that_another_crate_defines_has_its_members() {
        let core = "pub use self::inner::*; mod inner { pub struct Span(pub u64); \
                    impl Span { pub fn as_micros(self) -> u64 { 0 } } }";
        let store = "pub use kept::Page; pub use core_of_ours::Span as Length; \
                     mod kept { pub enum Page { First, Last } }";
        let ours = "pub use store_of_ours::{Length, Page}; pub use std::time::Duration;";
        let all = crates(&[
            ("core_of_ours", core),
            ("store_of_ours", store),
            ("ours", ours),
        ]);
        let listed = "Duration\nLength\n    fn as_micros(self) -> u64\n    u64\n\
                      Page\n    First\n    Last\n";
        assert_eq!(listing(&all, "ours"), listed);
    }
}
