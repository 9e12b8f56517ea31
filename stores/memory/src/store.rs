//! The store: tables by name, and how much they may hold.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tidegate_store::core::Timestamp;
use tidegate_store::definitions::at_once;
use tidegate_store::sync::Mutex;
use tidegate_store::{
    Abilities, Change, Cleared, Defined, Definition, Definitions, Event, Follower,
    LocalDefinitions, Page, Plan, Store, StoreError, StoreFuture, Table, TableBounds,
};

use crate::bounds::Bounds;
use crate::queue::Queued;
use crate::table::MemoryTable;

/// State in this process, forgotten when it ends.
#[derive(Debug, Default)]
pub struct MemoryStore {
    bounds: Bounds,
    tables: Mutex<HashMap<String, Arc<Queued<MemoryTable>>>>,
    local_definitions: LocalDefinitions,
}

impl MemoryStore {
    /// A store whose tables keep to `bounds` each.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            tables: Mutex::default(),
            local_definitions: LocalDefinitions::default(),
        }
    }
}

impl Store for MemoryStore {
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: false,
            shared: false,
            own_clock: false,
            answers_can_be_lost: false,
            counts_usage: true,
        }
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        let tables = self.tables.lock();
        Ok(tables.get(name).map(|table| table.table().last_plan()))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        at_once(Ok(self.local_definitions.definitions(owner, newer_than)))
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        at_once(Ok(self.local_definitions.definition(owner, key)))
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        at_once(Ok(self.local_definitions.definition_with_ancestors(
            owner,
            key,
            parent_offset,
        )))
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        at_once(Ok(self.local_definitions.page(owner, prefix, after, most)))
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        at_once(self.local_definitions.change(owner, &change))
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        at_once(
            self.local_definitions
                .events(owner, subject, after, most, now),
        )
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.local_definitions.follow(owner, follower);
    }

    fn forget(&self, name: &str) {
        // Whoever is being answered by it keeps it for that long.
        self.tables.lock().remove(name);
    }

    /// All at once.
    fn clear(&self, prefix: &str, _: Option<&[u8]>) -> StoreFuture<Cleared> {
        let gone: Vec<_> = {
            let mut tables = self.tables.lock();
            let gone = tables.extract_if(|name, _| name.starts_with(prefix));
            gone.collect()
        };
        // It is dropped where nobody waits for the lock.
        let removed = gone.len() as u64 + self.local_definitions.clear(prefix);
        drop(gone);
        at_once(Ok(Cleared {
            removed,
            next: None,
        }))
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        self.open_within(name, plan, &TableBounds::default())
    }

    fn open_within(
        &self,
        name: &str,
        plan: &Arc<Plan>,
        asked: &TableBounds,
    ) -> Result<Arc<dyn Table>, StoreError> {
        let bounds = self.bounds.within(asked);
        let mut tables = self.tables.lock();
        let table = tables
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(Queued::new(MemoryTable::new(plan, bounds))));
        if Arc::strong_count(table) > 1 {
            return Err(StoreError::InUse(name.to_owned()));
        }
        let kept = table.table().last_plan().levels();
        if kept != plan.levels() {
            return Err(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                wanted: plan.levels(),
            });
        }
        table.table().bound(bounds);
        table.table().set_steady_clock(asked.steady_clock);
        Ok(Arc::clone(table) as Arc<dyn Table>)
    }
}
