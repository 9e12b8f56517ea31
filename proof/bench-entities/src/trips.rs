//! A memory store that counts how often it is asked for an entity: at a store beyond a network
//! each time is a trip.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tidegate_core::Timestamp;
use tidegate_memory::MemoryStore;
use tidegate_store::{
    Abilities, Change, Defined, Definition, Definitions, Event, Follower, Page, Plan, Store,
    StoreError, StoreFuture, Table,
};

/// The store, and what it was asked.
#[derive(Default)]
pub struct Trips {
    store: MemoryStore,
    trips: AtomicU64,
    reads_entity_alone: AtomicBool,
}

impl Trips {
    /// Whether an entity is read with its ancestors, or alone, as on DynamoDB.
    pub fn set_reads_ancestors(&self, reads: bool) {
        self.reads_entity_alone.store(!reads, Ordering::Relaxed);
    }

    /// How many since the last time.
    pub fn take(&self) -> u64 {
        self.trips.swap(0, Ordering::Relaxed)
    }
}

impl Store for Trips {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.store.definitions(owner, newer_than)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        self.store.definition(owner, key)
    }

    fn definitions_at(&self, owner: &str, keys: &[&[u8]]) -> StoreFuture<Vec<Option<Definition>>> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        self.store.definitions_at(owner, keys)
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        let found = self
            .store
            .definition_with_ancestors(owner, key, parent_offset);
        let is_alone = self.reads_entity_alone.load(Ordering::Relaxed);
        let most = if is_alone { 1 } else { usize::MAX };
        StoreFuture::new(async move { Ok(found.await?.into_iter().take(most).collect()) })
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        self.store.definitions_page(owner, prefix, after, most)
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        self.store.change(owner, change)
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        self.store.events(owner, subject, after, most, now)
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.store.follow(owner, follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        self.store.open(name, plan)
    }
}
