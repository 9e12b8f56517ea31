//! One store for many walks, each with tables of its own: to open a store for each
//! would be most of the work.

use std::sync::{Arc, Weak};

use tidegate_store::core::Timestamp;
use tidegate_store::{
    Abilities, Change, Cleared, Defined, Definition, Definitions, Event, Follower, Page, Plan,
    Store, StoreError, StoreFuture, Table,
};

/// A store in which everything is named by a walk.
struct Apart {
    store: Arc<dyn Store>,
    walk: usize,
}

/// What `walk` sees of `store`: names of its own.
#[must_use]
pub fn apart(store: Arc<dyn Store>, walk: usize) -> Arc<dyn Store> {
    Arc::new(Apart { store, walk })
}

impl Apart {
    fn named(&self, name: &str) -> String {
        format!("{name} {}", self.walk)
    }
}

impl Store for Apart {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        self.store.last_plan(&self.named(name))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.store.definitions(&self.named(owner), newer_than)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        self.store.definition(&self.named(owner), key)
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        self.store
            .definitions_page(&self.named(owner), prefix, after, most)
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        self.store.change(&self.named(owner), change)
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
            .events(&self.named(owner), subject, after, most, now)
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.store.follow(&self.named(owner), follower);
    }

    fn forget(&self, name: &str) {
        self.store.forget(&self.named(name));
    }

    /// Of every walk: a prefix that is to be cleared has a name of its own in it.
    fn clear(&self, prefix: &str, after: Option<&[u8]>) -> StoreFuture<Cleared> {
        self.store.clear(prefix, after)
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let opened = self.store.open(&self.named(name), plan);
        opened.map_err(|error| match error {
            StoreError::InUse(_) => StoreError::InUse(name.to_owned()),
            StoreError::OtherLevels { kept, wanted, .. } => StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                wanted,
            },
            other => other,
        })
    }
}
