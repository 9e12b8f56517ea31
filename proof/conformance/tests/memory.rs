//! The memory store against the suite.

use std::sync::Arc;

use tidegate_conformance::{Subject, suite};
use tidegate_memory::{Bounds, MemoryStore};

/// Random commands in a run: they take a second or two.
const COMMANDS: usize = 300_000;

fn memory() -> Subject {
    let bounded = |max_keys, max_leases| {
        let bounds = Bounds {
            max_keys,
            max_leases,
            // Which of two bounds holds is not for every store to answer alike.
            max_keys_per_root: Some(max_keys),
            max_leases_per_root: Some(max_leases),
            ..Bounds::default()
        };
        Arc::new(MemoryStore::new(bounds)) as _
    };
    let subject = Subject::new(|| Arc::new(MemoryStore::default()));
    subject
        .bounded(bounded)
        .drops_spent_state_early()
        .with_random_commands(COMMANDS)
}

suite!(memory());
