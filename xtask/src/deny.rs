//! Who may be depended on, and under which licence: `deny.toml`.

use crate::command::{cargo, output, run as run_command};

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
