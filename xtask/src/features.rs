//! Crates compiled by themselves: what the workspace as a whole hides, since there each
//! crate has the features that any other asks for.

use std::time::{Duration, Instant};

use crate::command::{cargo, output, show};
use crate::manifest::{Manifest, published};

/// `cargo xtask features [CRATE ...]`: each feature by itself, none, and all, as a table.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let crates = published()?.into_iter();
    let crates = crates.filter(|c| arguments.is_empty() || arguments.contains(&c.name));
    let crates: Vec<_> = crates.filter(|c| !c.features().is_empty()).collect();
    if crates.is_empty() {
        return Err(format!("no crate of {arguments:?} has features"));
    }
    println!("| crate | features | compiles |\n|---|---|---|");
    let mut failed = Vec::new();
    for one in &crates {
        for choice in choices(&one.features()) {
            let (compiles, took) = check(&one.name, &choice);
            let said = if compiles.is_ok() { "yes" } else { "NO" };
            println!(
                "| {} | {} | {said}, {} s |",
                one.name,
                choice.join(" "),
                took.as_secs()
            );
            failed.extend(compiles.err());
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n")),
    }
}

/// None, each by itself, and all.
fn choices(features: &[String]) -> Vec<Vec<String>> {
    let bare = "--no-default-features".to_owned();
    let each = features.iter().filter(|name| *name != "default");
    let each = each.map(|name| vec![bare.clone(), "--features".to_owned(), name.clone()]);
    let mut choices = vec![vec![bare.clone()]];
    choices.extend(each);
    choices.push(vec!["--all-features".to_owned()]);
    choices
}

/// Each published library, with what is on by default and without.
pub fn apart() -> Result<(), String> {
    for library in published()?.iter().filter(|one| one.is_library()) {
        for choice in defaults(library) {
            let (compiles, took) = check(&library.name, &choice);
            compiles?;
            println!(
                "{:<20} {:<24} {} s",
                library.name,
                choice.join(" "),
                took.as_secs()
            );
        }
    }
    Ok(())
}

/// Two choices, unless they are the same.
fn defaults(library: &Manifest) -> Vec<Vec<String>> {
    let bare = vec!["--no-default-features".to_owned()];
    match library.features().contains(&"default".to_owned()) {
        true => vec![Vec::new(), bare],
        false => vec![bare],
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the length of a check is not a decision"
)]
fn check(name: &str, choice: &[String]) -> (Result<(), String>, Duration) {
    let start = Instant::now();
    let mut check = cargo(["check", "--quiet", "--locked", "--package", name]);
    check.args(choice);
    let compiles = output(&mut check).map(|_| ());
    let compiles = compiles.ok_or_else(|| format!("failed: {}", show(&check)));
    (compiles, start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::{choices, defaults};
    use crate::manifest::published;

    #[test]
    fn each_feature_is_tried_by_itself() {
        let names = ["default", "memory", "tower"].map(str::to_owned);
        let lines: Vec<_> = choices(&names).iter().map(|c| c.join(" ")).collect();
        let bare = "--no-default-features";
        let memory = format!("{bare} --features memory");
        let tower = format!("{bare} --features tower");
        assert_eq!(lines, [bare, &memory, &tower, "--all-features"]);
    }

    #[test]
    fn a_library_without_defaults_is_tried_once() {
        let published = published().expect("manifests");
        let of = |name| {
            published
                .iter()
                .find(|m| m.name == name)
                .expect("it is there")
        };
        assert_eq!(defaults(of("tidegate")).len(), 2);
        assert_eq!(defaults(of("tidegate-url")).len(), 1);
    }
}
