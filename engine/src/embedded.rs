//! The store that a set uses when it is given none: memory.
//!
//! This file is the one place where the engine names a store, and only under
//! the feature `memory`; everything else goes through the contract.

use std::sync::Arc;

use tidegate_contract::Store;
use tidegate_memory::{Bounds, MemoryStore};

/// A memory store for one set.
pub(crate) fn store(max_keys: Option<usize>, max_leases: Option<usize>) -> Arc<dyn Store> {
    let usual = Bounds::default();
    Arc::new(MemoryStore::new(Bounds {
        max_keys: max_keys.unwrap_or(usual.max_keys),
        max_leases: max_leases.unwrap_or(usual.max_leases),
    }))
}
