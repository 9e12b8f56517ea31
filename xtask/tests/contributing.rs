//! CONTRIBUTING.md sends its reader to files that there are.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What stands between backticks outside of fences.
fn quoted(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let quoted = prose.flat_map(|part| part.split('`').skip(1).step_by(2));
    quoted.collect()
}

/// A path within the repository; not a command, a route or what a build makes.
fn is_path(text: &str) -> bool {
    let is_plain = !text.contains([' ', '*', '\n']) && !text.starts_with(['/', '.']);
    is_plain && text.contains('/') && !text.starts_with("target/")
}

#[test]
fn every_file_that_contributing_names_exists() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("it is there");
    let paths: Vec<_> = quoted(&text)
        .into_iter()
        .filter(|text| is_path(text))
        .collect();
    assert!(paths.len() > 30, "{paths:?}");
    let missing = paths.iter().filter(|path| !root().join(path).exists());
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{missing:?}");
}
