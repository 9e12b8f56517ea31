//! The file store against the suite.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_conformance::{Subject, checks, namespace, suite};
use tidegate_file::{FileStore, Options, SyncMode};

/// So many walks share a file.
const TABLES: usize = 256;

fn options() -> Options {
    Options {
        sync: SyncMode::Never,
        ..Options::default()
    }
}

fn open(path: &Path, options: Options) -> Arc<FileStore> {
    Arc::new(FileStore::open(path, options).expect("a file"))
}

/// Many walks in one file, each with tables of its own.
fn file() -> Subject {
    let folder = tempfile::tempdir().expect("a folder");
    let current = RefCell::new(open(&folder.path().join("0"), options()));
    let walks = AtomicUsize::new(0);
    let fresh = move || {
        let walk = walks.fetch_add(1, Ordering::Relaxed);
        if walk % TABLES == TABLES - 1 {
            *current.borrow_mut() = open(&folder.path().join(walk.to_string()), options());
        }
        let store = Arc::clone(&current.borrow());
        namespace::of_walk(store, walk)
    };
    let subject = Subject::new(fresh).with_random_commands(40_000);
    subject.drops_spent_state_early()
}

suite!(file());

/// One file, closed and opened again.
#[test]
fn state_survives_a_restart_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let again = path.clone();
    let subject = Subject::new(move || open(&path, options()) as _)
        .reopened(move || open(&again, options()) as _);
    for check in [
        "state_survives_a_restart",
        "what_was_used_by_limits_of_its_own_survives_a_restart",
        "definitions_survive_a_restart",
        "usage_survives_a_restart",
        "random_histories_add_up_in_the_hours_that_were_charged",
    ] {
        checks::run(check, &subject);
    }
}
