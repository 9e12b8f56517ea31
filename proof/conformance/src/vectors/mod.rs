//! The tables of `proof/vectors`, read once and played to whoever answers them;
//! their README says how they are read.
//!
//! | room | holds |
//! |---|---|
//! | `table` | a table as data, and what each of its steps must come to |
//! | `reader` | tables from their text |
//! | `on_the_core` | the core as a player |
//! | `on_a_store` | a key of a store's table as a player |
//! | `booking` | how an admitted request is charged |
//! | `ways` | in what company, and for what, requests are sent |

mod booking;
mod on_a_store;
mod on_the_core;
mod reader;
mod table;
mod ways;

use std::fs;
use std::path::Path;

use crate::Subject;
use table::Table;
use ways::WAYS;

/// What was played.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Played {
    /// Steps that were answered as written.
    pub steps: usize,
    /// Steps of tables that can be told to the core alone.
    pub core_only: usize,
}

/// Plays every table to the core.
///
/// # Panics
/// At the first step that is answered otherwise, with its file and line.
#[must_use]
pub fn on_the_core() -> Played {
    let tables = tables();
    tables.iter().for_each(on_the_core::play);
    Played {
        steps: tables.iter().map(|table| table.steps.len()).sum(),
        core_only: 0,
    }
}

/// Plays every table to tables of the subject's, in each of the ways in which a store
/// can be asked so: what is counted is what was played in all of them together.
///
/// # Panics
/// As [`on_the_core()`]; with the way, too.
#[must_use]
pub fn on_a_store(subject: &Subject) -> Played {
    let (store, mut played) = (subject.fresh(), Played::default());
    for (number, table) in tables().iter().enumerate() {
        if table.is_for_the_core_alone() {
            played.core_only += table.steps.len();
            continue;
        }
        let name = format!("vectors {number}");
        let steps = WAYS.iter().map(|way| way.play(&*store, &name, table));
        played.steps += steps.sum::<usize>();
    }
    played
}

/// Every table, file by file.
fn tables() -> Vec<Table> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    let entries = fs::read_dir(folder).expect("the vectors");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_table = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "txt");
    let mut paths: Vec<_> = paths.filter(is_table).collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).expect("a readable table");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        reader::read(&name, &text)
    };
    paths.iter().flat_map(read).collect()
}
