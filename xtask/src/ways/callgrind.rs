//! What valgrind has counted.

use std::collections::HashMap;
use std::path::Path;

use super::calls::{Calls, Function};

/// How often each function whose text stands below `root` was entered. `text`: what
/// callgrind writes with `--compress-strings=no`.
pub fn calls(text: &str, root: &Path) -> Calls {
    let root = format!("{}/", root.display());
    let mut files: HashMap<&str, &str> = HashMap::new();
    let mut entered: HashMap<&str, u64> = HashMap::new();
    let (mut file, mut callee) = ("", "");
    for line in text.lines() {
        if let Some(of) = line.strip_prefix("fl=") {
            file = of;
        } else if let Some(name) = line.strip_prefix("fn=") {
            files.insert(name, file);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee = name;
        } else if let Some(count) = line.strip_prefix("calls=") {
            let count = count.split(' ').next().and_then(|count| count.parse().ok());
            *entered.entry(callee).or_default() += count.unwrap_or(0);
        }
    }
    let mut calls = Calls::new();
    for (name, count) in entered {
        let Some(file) = files.get(name).and_then(|file| file.strip_prefix(&root)) else {
            continue;
        };
        let function = Function {
            file: file.to_owned(),
            name: plain(name),
        };
        // Of the parts of one function, the one that was entered most often.
        let so_far = calls.entry(function).or_default();
        *so_far = count.max(*so_far);
    }
    calls
}

/// The function that a part of it belongs to, without a compiler's additions.
fn plain(name: &str) -> String {
    let name = name.split('\'').next().unwrap_or(name);
    let end = name.find("::{closure").or_else(|| name.find("::{{closure"));
    let name = &name[..end.unwrap_or(name.len())];
    let hash = name
        .len()
        .checked_sub(19)
        .map(|at| name.split_at_checked(at));
    match hash.flatten() {
        Some((before, hash)) if hash.starts_with("::h") => before.to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_function_are_one_and_what_is_not_ours_is_none() {
        let text = "\
fl=/ours/tidegate/src/set/inner.rs
fn=tidegate::set::inner::Inner::ask
1 2
cfi=/ours/tidegate/src/set/inner.rs
cfn=tidegate::set::inner::Inner::ask::{{closure}}
calls=7 1
1 5
cfi=/rust/core/src/option.rs
cfn=core::option::Option<T>::map
calls=9 1
1 5
fn=tidegate::set::inner::Inner::ask::{{closure}}
1 1
cfn=tidegate::set::inner::Inner::ask
calls=2 1
fl=/rust/core/src/option.rs
fn=core::option::Option<T>::map
1 1
";
        let calls = calls(text, Path::new("/ours"));
        let ask = Function {
            file: "tidegate/src/set/inner.rs".to_owned(),
            name: "tidegate::set::inner::Inner::ask".to_owned(),
        };
        assert_eq!(calls, Calls::from([(ask, 7)]));
    }
}
