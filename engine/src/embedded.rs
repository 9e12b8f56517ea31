//! The store that a set uses when it is given none: memory.
//!
//! This file is the one place where the engine names a store, and only under
//! the feature `memory`; everything else goes through the contract.

use std::sync::Arc;

use tidegate_contract::Store;
use tidegate_memory::{Bounds, MemoryStore};

/// A memory store for one set.
pub(crate) fn store(max_keys: Option<usize>) -> Arc<dyn Store> {
    let mut bounds = Bounds::default();
    if let Some(max_keys) = max_keys {
        bounds.max_keys = max_keys;
    }
    Arc::new(MemoryStore::new(bounds))
}
