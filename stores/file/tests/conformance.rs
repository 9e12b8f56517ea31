//! The file store against the suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::contract::{Abilities, Plan, Store, StoreError, Table};
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
        self.store.open(&format!("{name} {}", self.walk), plan)
    }
}

#[test]
fn every_store_gives_the_cores_answer_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options {
        sync: SyncMode::Never,
        ..Options::default()
    };
    let store = FileStore::open(folder.path().join("store"), options);
    let store = Arc::new(store.expect("a new file"));
    let walks = AtomicUsize::new(0);
    let open = || {
        let walk = walks.fetch_add(1, Ordering::Relaxed);
        let store = Arc::clone(&store);
        Arc::new(Fresh { store, walk }) as Arc<dyn Store>
    };
    tidegate_conformance::walk::agrees_with_the_model(&open);
}
