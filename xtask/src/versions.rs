//! The oldest Rust that will do: said once, by the workspace, and the same wherever else it
//! is named.

use crate::command::{self, cargo, output, program, target_directory};
use crate::manifest::{members, read, value};

/// Files that name it in words. Whoever writes it down elsewhere adds the file.
const NAMED_IN: &[&str] = &[
    "CONTRIBUTING.md",
    "docs/README.md",
    "docs/start/rust.md",
    "README.md",
    ".github/workflows/ci.yml",
    "proof/fuzz/Cargo.toml",
    "python/Cargo.toml",
    "python/README.md",
    "docs/python.md",
];

/// What stands before the number in such a file.
const BEFORE: &[&str] = &["Rust 1.", "rust:1.", "rust-version = \"1."];

/// Every place agrees, and that Rust compiles the workspace, if it can be had here.
pub fn hold() -> Result<(), String> {
    let oldest = oldest()?;
    let stray = stray(&oldest)?;
    if !stray.is_empty() {
        return Err(format!(
            "the workspace needs Rust {oldest}:\n  {}",
            stray.join("\n  ")
        ));
    }
    println!("Rust {oldest} is named by all crates and pages");
    compile(&oldest)
}

/// `rust-version` of the workspace.
fn oldest() -> Result<String, String> {
    let workspace = read("Cargo.toml")?;
    let version = value(&workspace, "workspace.package", "rust-version");
    version.ok_or("Cargo.toml names no rust-version".to_owned())
}

/// Crates and pages that say something else.
fn stray(oldest: &str) -> Result<Vec<String>, String> {
    let mut stray = Vec::new();
    for member in members()? {
        let says = member.package("rust-version");
        if says.as_deref() != Some("workspace") {
            stray.push(format!("{}/Cargo.toml: {says:?}", member.folder));
        }
    }
    for path in NAMED_IN {
        let text = read(path)?;
        let other = named(&text).into_iter().filter(|version| version != oldest);
        stray.extend(other.map(|version| format!("{path}: {version}")));
    }
    Ok(stray)
}

/// The versions of Rust that a text names, as `1.95`.
fn named(text: &str) -> Vec<String> {
    let after = |before: &&str| text.split(*before).skip(1).collect::<Vec<_>>();
    let minors = BEFORE.iter().flat_map(after).map(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        format!("1.{}", &rest[..digits])
    });
    minors.collect()
}

/// By the machine's Rust if it is that one, else by rustup's if it has it.
fn compile(oldest: &str) -> Result<(), String> {
    let rustc = output(program("rustc").arg("--version")).ok_or("rustc does not answer")?;
    if rustc.starts_with(&format!("rustc {oldest}.")) {
        println!("the machine's Rust is that one: all other steps compile by it");
        return Ok(());
    }
    let toolchains = output(program("rustup").args(["toolchain", "list"])).unwrap_or_default();
    // Such as `1.95-x86_64-unknown-linux-gnu` or `1.95.1-...`.
    let is_it = |line: &&str| {
        let rest = line.strip_prefix(oldest);
        rest.is_some_and(|rest| rest.starts_with(['.', '-']))
    };
    let Some(toolchain) = toolchains.lines().find(is_it) else {
        println!(
            "not compiled by it: the machine's is {}, and rustup has none of {oldest}",
            rustc.trim()
        );
        return Ok(());
    };
    let name = toolchain.split(' ').next().unwrap_or(toolchain);
    let mut check = cargo(["check", "--quiet", "--workspace", "--all-features"]);
    check.env("RUSTUP_TOOLCHAIN", name);
    check.env("CARGO_TARGET_DIR", target_directory().join("oldest"));
    command::run(&mut check)
}

#[cfg(test)]
mod tests {
    use super::{NAMED_IN, named, oldest, stray};

    #[test]
    fn every_crate_and_page_names_the_same_rust() {
        let oldest = oldest().expect("it is named");
        assert_eq!(stray(&oldest), Ok(Vec::new()));
        for path in NAMED_IN {
            let text = super::read(path).expect(path);
            assert!(
                !named(&text).is_empty(),
                "{path} names no Rust: take it off the list"
            );
        }
        assert!(!stray("1.2").expect("read").is_empty());
    }

    #[test]
    fn a_version_is_read_where_it_is_named() {
        let text = "Rust 1.95 or later; FROM rust:1.90-slim\nrust-version = \"1.7\"";
        assert_eq!(named(text), ["1.95", "1.90", "1.7"]);
    }
}
