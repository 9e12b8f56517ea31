//! Where a set's overrides are kept: in its store, under its name. What another process
//! sets there holds here, too.

use std::sync::{Arc, Weak};

use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicU64, Ordering};
use tidegate_store::{Definition, Follower, Store, StoreError, StoreFuture};

use super::variants::Overrides;
use crate::error::BuildError;
use crate::limit::Limit;
use tidegate_store::block_on;

/// Keeps the overrides of one set.
pub(crate) struct OverrideStore {
    store: Arc<dyn Store>,
    /// The owner of the definitions: no service is called so.
    owner: String,
    /// The version of what it goes by.
    pub(super) version: AtomicU64,
    /// One change at a time.
    pub(super) turn: Mutex<()>,
    /// What of the last change could not be made use of.
    pub(super) fault: Mutex<Option<BuildError>>,
}

impl OverrideStore {
    pub(super) fn new(store: Arc<dyn Store>, name: &str) -> Self {
        Self {
            store,
            owner: format!("set {name}"),
            version: AtomicU64::new(0),
            turn: Mutex::new(()),
            fault: Mutex::new(None),
        }
    }

    /// What keys were given before.
    ///
    /// # Errors
    /// The store; what cannot be read.
    pub(super) fn given(&self) -> Result<Overrides, StoreError> {
        let definitions = block_on(self.store.definitions(&self.owner, 0))?;
        self.version.store(definitions.version, Ordering::Release);
        let given = definitions.changed.iter().filter_map(|one| {
            let value = one.value.as_deref()?;
            Some(Limit::decode_all(value).map(|limits| (one.key.as_slice().into(), limits.into())))
        });
        Ok(given.collect::<Result<_, _>>()?)
    }

    /// From here on `set` follows what any process gives its keys.
    pub(super) fn follow(&self, set: Weak<dyn Follower>) {
        self.store.follow(&self.owner, set);
    }

    /// Keeps what `key` is given, or that it is given nothing; whether that is a change.
    pub(super) fn keep(&self, key: &[u8], given: Option<&[Limit]>) -> StoreFuture<bool> {
        let definition = match given {
            Some(limits) => Definition::new(key, Limit::encode_all(limits)),
            None => Definition::none(key),
        };
        self.store.define(&self.owner, definition)
    }
}
