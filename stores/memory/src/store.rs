//! The store: tables by name, and how much they may hold.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_contract::sync::Mutex;
use tidegate_contract::{Abilities, Definition, Plan, Store, StoreError, Table};

use crate::table::MemoryTable;

/// How much each table of a store may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The most keys (and ancestors) whose state matters at once.
    pub max_keys: usize,
    /// The most leases held or remembered at once.
    pub max_leases: usize,
}

impl Default for Bounds {
    /// A little over a million of each.
    fn default() -> Self {
        Self {
            max_keys: 1 << 20,
            max_leases: 1 << 20,
        }
    }
}

/// What is defined for one owner, by key.
type Definitions = HashMap<Vec<u8>, Vec<u8>>;

/// State in this process, forgotten when it ends.
#[derive(Debug, Default)]
pub struct MemoryStore {
    bounds: Bounds,
    tables: Mutex<HashMap<String, Arc<MemoryTable>>>,
    /// By owner.
    definitions: Mutex<HashMap<String, Definitions>>,
}

impl MemoryStore {
    /// A store whose tables keep to `bounds` each.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            tables: Mutex::default(),
            definitions: Mutex::default(),
        }
    }
}

impl Store for MemoryStore {
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: false,
            shared: false,
            own_clock: false,
        }
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        let tables = self.tables.lock();
        Ok(tables.get(name).map(|table| table.last_plan()))
    }

    fn definitions(&self, owner: &str) -> Result<Vec<Definition>, StoreError> {
        let definitions = self.definitions.lock();
        let theirs = definitions.get(owner).cloned().unwrap_or_default();
        Ok(theirs.into_iter().collect())
    }

    fn define(&self, owner: &str, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        let mut definitions = self.definitions.lock();
        let theirs = definitions.entry(owner.to_owned()).or_default();
        match value {
            Some(value) => drop(theirs.insert(key.to_vec(), value.to_vec())),
            None => drop(theirs.remove(key)),
        }
        Ok(())
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let mut tables = self.tables.lock();
        let table = tables
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(MemoryTable::new(plan, self.bounds)));
        if Arc::strong_count(table) > 1 {
            return Err(StoreError::InUse(name.to_owned()));
        }
        let kept = table.last_plan().levels();
        if kept != plan.levels() {
            return Err(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                asked: plan.levels(),
            });
        }
        Ok(Arc::clone(table) as Arc<dyn Table>)
    }
}
