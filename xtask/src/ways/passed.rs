//! Which functions a decision passes: the difference of two runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::callgrind;
use super::calls::{Calls, Function};
use super::lua::{self, Server};
use crate::checkout::{Checkout, build_directory};
use crate::command::{self, program};

/// What is decided, and where.
pub struct Decision {
    pub name: &'static str,
    kind: &'static str,
    on_redis: bool,
}

pub const DECISIONS: [Decision; 4] = [
    Decision {
        name: "check, memory",
        kind: "check",
        on_redis: false,
    },
    Decision {
        name: "acquire + settle, memory",
        kind: "lease",
        on_redis: false,
    },
    Decision {
        name: "check, Redis",
        kind: "check",
        on_redis: true,
    },
    Decision {
        name: "acquire + settle, Redis",
        kind: "lease",
        on_redis: true,
    },
];

/// The first run makes so many, the second twice as many.
const DECIDED: u64 = 50;

const DRIVER: &str = include_str!("../../ways/driver.rs");

/// The functions that each of the [`DECISIONS`] passes.
pub fn of(checkout: &Checkout) -> Result<Vec<BTreeSet<Function>>, String> {
    lua::make_them_count(checkout.folder())?;
    let driver = build(checkout)?;
    let server = Server::start()?;
    let each = DECISIONS.iter();
    each.map(|decision| one(decision, &driver, &server, checkout.folder()))
        .collect()
}

fn one(
    decision: &Decision,
    driver: &Path,
    server: &Server,
    root: &Path,
) -> Result<BTreeSet<Function>, String> {
    let store = match decision.on_redis {
        true => server.url(),
        false => "memory".to_owned(),
    };
    let run = |times: u64| {
        let written = build_directory().join(format!("callgrind-{}", std::process::id()));
        let mut count = program("valgrind");
        count.args(["--tool=callgrind", "--quiet", "--compress-strings=no"]);
        count.arg(format!("--callgrind-out-file={}", written.display()));
        count
            .arg(driver)
            .args([&store, decision.kind])
            .arg(times.to_string());
        command::run(&mut count)?;
        let text = fs::read_to_string(&written);
        let text = text.map_err(|error| format!("{}: {error}", written.display()))?;
        let _ = fs::remove_file(&written);
        let mut calls = callgrind::calls(&text, root);
        calls.extend(server.calls()?);
        Ok::<_, String>(calls)
    };
    let (first, second) = (run(DECIDED)?, run(2 * DECIDED)?);
    Ok(risen(&first, second, DECIDED))
}

/// What the second run entered so much more often.
fn risen(first: &Calls, second: Calls, by: u64) -> BTreeSet<Function> {
    let before = |function: &Function| first.get(function).copied().unwrap_or(0);
    let risen = second
        .into_iter()
        .filter(|(function, calls)| *calls >= before(function) + by);
    risen.map(|(function, _)| function).collect()
}

/// The driver, built against the checkout's library, with the versions of its lock file.
fn build(checkout: &Checkout) -> Result<PathBuf, String> {
    let root = checkout.folder();
    let folder = root.join("target/driver");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&folder))
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    let lock = fs::read_to_string(root.join("Cargo.lock"));
    write(
        "Cargo.lock",
        &lock.map_err(|error| format!("Cargo.lock: {error}"))?,
    )?;
    write("Cargo.toml", &manifest(root))?;
    write("src/main.rs", DRIVER)?;
    let mut build = program(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    build.args(["build", "--quiet"]);
    if root.join(library(root)).join("src/pending.rs").exists() {
        build.args(["--features", "pending"]);
    }
    build.current_dir(&folder);
    let built = build_directory().join("build");
    build.env("CARGO_TARGET_DIR", &built);
    command::run(&mut build)?;
    Ok(built.join("debug/tidegate-ways"))
}

/// The library's folder, at this commit or an earlier one.
fn library(root: &Path) -> &'static str {
    match root.join("tidegate").exists() {
        true => "tidegate",
        false => "engine",
    }
}

/// A workspace of its own. Each function of ours has its file's name; nothing is inlined.
fn manifest(root: &Path) -> String {
    let (library, root) = (library(root), root.display());
    format!(
        "[package]\nname = \"tidegate-ways\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [features]\npending = []\n\
         [dependencies]\n\
         tidegate = {{ path = \"{root}/{library}\" }}\n\
         tidegate-redis = {{ path = \"{root}/stores/redis\" }}\n\
         [profile.dev]\nopt-level = 0\ndebug = \"line-tables-only\"\nincremental = false\n\
         [workspace]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_once_or_now_and_then_is_not_passed() {
        let function = |name: &str| Function {
            file: String::new(),
            name: name.to_owned(),
        };
        let calls = |calls: [(&str, u64); 3]| calls.map(|(name, n)| (function(name), n)).into();
        let first: Calls = calls([("start", 9), ("each", 50), ("seldom", 3)]);
        let second = calls([("start", 9), ("each", 100), ("seldom", 6)]);
        assert_eq!(
            risen(&first, second, 50),
            BTreeSet::from([function("each")])
        );
    }
}
