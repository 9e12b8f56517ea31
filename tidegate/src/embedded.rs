//! The store that a set uses when it is given none: memory.
//!
//! This file is the one place where the engine names a store, and only under
//! the feature `memory`; everything else goes through the contract.

use std::sync::Arc;

use tidegate_memory::MemoryStore;
use tidegate_store::Store;

/// A memory store for one set.
pub(crate) fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}
