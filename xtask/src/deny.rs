//! Who may be depended on, and under which licence: `deny.toml`.

use std::fs;

use crate::command::{cargo, output, root, run as run_command};

/// `cargo xtask deny`: by cargo-deny, which is no part of what the tests need.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let is_offline = match arguments {
        [] => false,
        [flag] if flag == "--offline" => true,
        _ => return Err("cargo xtask deny takes --offline, and nothing else".to_owned()),
    };
    if output(&mut cargo(["deny", "--version"])).is_none() {
        return Err(
            "cargo-deny is not installed: `cargo install cargo-deny --locked` takes some minutes"
                .to_owned(),
        );
    }
    let mut check = cargo(["deny", "--log-level", "error", "check"]);
    // Advisories are fetched; the rest stands in this repository.
    if is_offline {
        check.args(["bans", "licenses", "sources"]);
    }
    run_command(&mut check)
}

/// Nothing depends on a crate that `deny.toml` leaves to others: the part of `cargo deny` that
/// needs neither the program nor the network.
pub fn hold() -> Result<(), String> {
    let read = |name: &str| {
        fs::read_to_string(root().join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let strays = strays(&read("deny.toml")?, &read("Cargo.lock")?);
    match strays.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{}: deny.toml does not let them (`wrappers`)",
            strays.join(", ")
        )),
    }
}

/// Who depends on what it may not, as `lock` says.
fn strays(deny: &str, lock: &str) -> Vec<String> {
    let mut strays = Vec::new();
    for (kept, wrappers) in deny.lines().filter_map(rule) {
        for package in lock.split("[[package]]") {
            let Some(name) = quoted(package).next() else {
                continue;
            };
            let needs = package.split("dependencies = [").nth(1).unwrap_or_default();
            // "name", or "name version" where the lock file has several of it.
            let mut needs = quoted(needs).filter_map(|need| need.split(' ').next());
            if needs.any(|need| need == kept) && !wrappers.contains(&name) {
                strays.push(format!("{name} depends on {kept}"));
            }
        }
    }
    strays
}

/// A crate, and who may depend on it.
fn rule(line: &str) -> Option<(&str, Vec<&str>)> {
    let (kept, rest) = line.trim().split_once(", wrappers = [")?;
    let (wrappers, _) = rest.split_once(']')?;
    Some((quoted(kept).next()?, quoted(wrappers).collect()))
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::strays;

    const DENY: &str = r#"
    { crate = "openssl", use-instead = "rustls" },
    { crate = "axum", wrappers = ["tidegate-http", "tonic"], reason = "HTTP is its protocol's" },
"#;

    fn lock(name: &str, need: &str) -> String {
        format!(
            "[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\ndependencies = [\n \"bytes\",\n \
             \"{need}\",\n]\n\n[[package]]\nname = \"axum\"\nversion = \"0.8.1\"\n"
        )
    }

    #[test]
    fn a_crate_is_needed_by_those_alone_that_may() {
        assert!(strays(DENY, &lock("tidegate-http", "axum")).is_empty());
        assert!(strays(DENY, &lock("tidegate-sim", "axum-core")).is_empty());
        for need in ["axum", "axum 0.8.1"] {
            let told = strays(DENY, &lock("tidegate-sim", need));
            assert_eq!(told, ["tidegate-sim depends on axum"]);
        }
    }

    #[test]
    fn this_workspace_depends_on_what_it_may() {
        super::hold().expect("deny.toml and Cargo.lock agree");
    }
}
