//! What the page of messages quotes is what the programs say.

use std::path::Path;

use super::page::{repository, root};

/// Where the messages of the programs are.
const SOURCES: [&str; 7] = [
    "command/src",
    "gateway/src",
    "policy/src",
    "server/src",
    "service/src",
    "store/src",
    "stores",
];

/// The quoted messages of the tables whose first column is a message: those before what
/// clients get.
fn quoted() -> Vec<String> {
    let page = repository("docs/operating/messages.md");
    let (page, _) = page.split_once("## What clients get").expect("the tables");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let columns = rows.filter_map(|row| row.split(" | ").next());
    let parts = columns.flat_map(|column| column.split('`').step_by(2));
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Everything that is written in a folder's programs, each text on one line.
pub fn written(folder: &Path, texts: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            written(&path, texts);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).expect("a text");
            let lines = text.split("\\\n").map(str::trim_start);
            texts.extend(lines);
        }
    }
}

#[test]
fn every_message_of_the_page_is_in_a_program() {
    let mut texts = String::new();
    for folder in SOURCES {
        written(&root().join(folder), &mut texts);
    }
    let quoted = quoted();
    let unknown: Vec<_> = quoted
        .iter()
        .filter(|message| !texts.contains(message.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(quoted.len() > 30, "{}", quoted.len());
}
