//! The file store against the suite.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::contract::{Abilities, Plan, Store, StoreError, Table};
use tidegate_file::{FileStore, Options, SyncMode};

/// So many walks share a file.
const TABLES: usize = 256;

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
        self.store.open(&format!("{name} {}", self.walk), plan)
    }
}

#[test]
fn every_store_gives_the_cores_answer_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let walks = AtomicUsize::new(0);
    let current = RefCell::new(file(&folder, 0));
    let open = || {
        let walk = walks.fetch_add(1, Ordering::Relaxed);
        if walk % TABLES == TABLES - 1 {
            *current.borrow_mut() = file(&folder, walk);
        }
        let store = Arc::clone(&current.borrow());
        Arc::new(Fresh { store, walk }) as Arc<dyn Store>
    };
    tidegate_conformance::walk::agrees_with_the_model(&open);
}

fn file(folder: &tempfile::TempDir, number: usize) -> Arc<FileStore> {
    let options = Options {
        sync: SyncMode::Never,
        ..Options::default()
    };
    let store = FileStore::open(folder.path().join(number.to_string()), options);
    Arc::new(store.expect("a new file"))
}
