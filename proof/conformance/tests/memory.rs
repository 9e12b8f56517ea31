//! The memory store against the suite.

use std::sync::Arc;

use tidegate_conformance::{Subject, suite};
use tidegate_memory::{Bounds, MemoryStore};

fn memory() -> Subject {
    let bounded = |max_keys, max_leases| {
        let bounds = Bounds {
            max_keys,
            max_leases,
        };
        Arc::new(MemoryStore::new(bounds)) as _
    };
    Subject::new(|| Arc::new(MemoryStore::default())).bounded(bounded)
}

suite!(memory());
