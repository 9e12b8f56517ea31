//! The file store against the suite.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::contract::{Abilities, Plan, Store, StoreError, Table};
use tidegate_conformance::{Subject, checks, suite};
use tidegate_file::{FileStore, Options, SyncMode};

/// A store in which every walk has a table of its own: to make a file for each
/// would be most of the work.
struct Fresh {
    store: Arc<FileStore>,
    walk: usize,
}

impl Store for Fresh {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn last_plan(&self, name: &str) -> Option<Arc<Plan>> {
        self.store.last_plan(&format!("{name} {}", self.walk))
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let opened = self.store.open(&format!("{name} {}", self.walk), plan);
        opened.map_err(|error| match error {
            StoreError::InUse(_) => StoreError::InUse(name.to_owned()),
            other => other,
        })
    }
}

fn options() -> Options {
    Options {
        sync: SyncMode::Never,
        ..Options::default()
    }
}

fn open(path: &Path, options: Options) -> Arc<FileStore> {
    Arc::new(FileStore::open(path, options).expect("a file"))
}

/// All walks in one file, each with tables of its own.
fn file() -> Subject {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("store"), options());
    let walks = AtomicUsize::new(0);
    let fresh = move || {
        let walk = walks.fetch_add(1, Ordering::Relaxed);
        let store = Arc::clone(&store);
        let _kept = &folder;
        Arc::new(Fresh { store, walk }) as Arc<dyn Store>
    };
    Subject::new(fresh).with_random_commands(40_000)
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
    checks::run("state_survives_a_restart", &subject);
}
