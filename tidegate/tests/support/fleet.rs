//! A store that several servers share, in one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tidegate_memory::MemoryStore;
use tidegate_store::{Abilities, Definitions, Plan, Store, StoreError, StoreFuture, Table};

/// A store of a fleet: who opens a table again has the same one.
#[derive(Default)]
pub struct Fleet(MemoryStore, Mutex<HashMap<String, Arc<dyn Table>>>);

impl Store for Fleet {
    fn abilities(&self) -> Abilities {
        Abilities {
            shared: true,
            ..self.0.abilities()
        }
    }
    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.0.definitions(owner, newer_than)
    }
    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let mut tables = self.1.lock().unwrap();
        if let Some(table) = tables.get(name) {
            return Ok(Arc::clone(table));
        }
        let table = self.0.open(name, plan)?;
        tables.insert(name.to_owned(), Arc::clone(&table));
        Ok(table)
    }
}
