//! A part of a store that shares nothing with the rest of it.
//!
//! What a namespace calls `chat`, the store calls `/NAMESPACE/chat`: tables, and the owners of
//! definitions. So keys, leases, usage, definitions and events of one namespace are in other
//! tables, and of other owners, than those of the same names elsewhere; keys themselves are no
//! longer than they were. In the name of a namespace `%` is written as `%25` and `/` as `%2F`:
//! none begins like another.

use std::sync::{Arc, Weak};

use tidegate_core::Timestamp;

use crate::definitions::{Change, Defined, Definition, Definitions, Event, Follower};
use crate::error::StoreError;
use crate::listing::Page;
use crate::plan::Plan;
use crate::store::{Abilities, Cleared, Store, Table, TableBounds};
use crate::store_future::StoreFuture;

/// A namespace of a store: a [`Store`] of its own, to whoever uses it.
///
/// What was kept in it is removed by [`clear`](Store::clear), called with an empty prefix.
pub struct NamespacedStore {
    store: Arc<dyn Store>,
    prefix: String,
}

impl NamespacedStore {
    /// The namespace called `name` of `store`: any name, also one that is part of another.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, name: &str) -> Self {
        let name = name.replace('%', "%25").replace('/', "%2F");
        Self {
            store,
            prefix: format!("/{name}/"),
        }
    }

    fn of(&self, name: &str) -> String {
        [&self.prefix, name].concat()
    }

    /// An error, with names as they are called here.
    fn told(&self, error: StoreError) -> StoreError {
        let own = |name: String| match name.strip_prefix(&self.prefix) {
            Some(own) => own.to_owned(),
            None => name,
        };
        match error {
            StoreError::InUse(name) => StoreError::InUse(own(name)),
            StoreError::OtherLevels { name, kept, wanted } => StoreError::OtherLevels {
                name: own(name),
                kept,
                wanted,
            },
            other => other,
        }
    }
}

impl Store for NamespacedStore {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        self.store.last_plan(&self.of(name))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.store.definitions(&self.of(owner), newer_than)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        self.store.definition(&self.of(owner), key)
    }

    fn definitions_at(&self, owner: &str, keys: &[&[u8]]) -> StoreFuture<Vec<Option<Definition>>> {
        self.store.definitions_at(&self.of(owner), keys)
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        self.store
            .definition_with_ancestors(&self.of(owner), key, parent_offset)
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        self.store
            .definitions_page(&self.of(owner), prefix, after, most)
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        self.store.change(&self.of(owner), change)
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        self.store
            .events(&self.of(owner), subject, after, most, now)
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.store.follow(&self.of(owner), follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let opened = self.store.open(&self.of(name), plan);
        opened.map_err(|error| self.told(error))
    }

    fn open_within(
        &self,
        name: &str,
        plan: &Arc<Plan>,
        bounds: &TableBounds,
    ) -> Result<Arc<dyn Table>, StoreError> {
        let opened = self.store.open_within(&self.of(name), plan, bounds);
        opened.map_err(|error| self.told(error))
    }

    fn forget(&self, name: &str) {
        self.store.forget(&self.of(name));
    }

    fn clear(&self, prefix: &str, after: Option<&[u8]>) -> StoreFuture<Cleared> {
        self.store.clear(&self.of(prefix), after)
    }
}
