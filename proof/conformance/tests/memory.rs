//! The memory store against the suite.

use std::sync::Arc;

use tidegate::contract::Store;
use tidegate_conformance::{Subject, differential, walk};
use tidegate_memory::MemoryStore;

fn open() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

#[test]
fn every_store_gives_the_cores_answer_memory() {
    walk::agrees_with_the_model(&open);
}

#[test]
fn every_store_gives_the_references_answer_memory() {
    differential(&Subject::new(open), 1, 200_000);
}
