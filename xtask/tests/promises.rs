//! The table of promises in `proof/README.md` names tests that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The rows of promises: what stands before the last heading.
fn table() -> Vec<String> {
    let text = fs::read_to_string(root().join("proof/README.md")).expect("the table");
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("::"));
    rows.map(str::to_owned).collect()
}

/// The `file::name` pairs between backticks.
fn named(row: &str) -> impl Iterator<Item = (&str, &str)> {
    let quoted = row.split('`').skip(1).step_by(2);
    quoted.filter_map(|text| text.split_once("::"))
}

#[test]
fn every_test_that_the_table_of_promises_names_exists() {
    for row in table() {
        for (file, name) in named(&row) {
            let text = fs::read_to_string(root().join(file));
            let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
            let keywords = ["fn", "def"];
            let defined = keywords
                .map(|keyword| [format!("{keyword} {name}("), format!("{keyword} {name}<")]);
            let defined = defined.as_flattened();
            let defined = defined.iter().any(|definition| text.contains(definition));
            assert!(defined, "{file} has no test called {name}");
        }
    }
}

#[test]
fn every_promise_has_a_row_with_a_test() {
    let numbers: BTreeSet<u32> = table()
        .iter()
        .filter(|row| named(row).next().is_some())
        .filter_map(|row| row.split('|').nth(1)?.trim().parse().ok())
        .collect();
    assert_eq!(numbers, (1..=16).collect());
}
