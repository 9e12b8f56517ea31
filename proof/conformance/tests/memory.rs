//! The memory store against the suite.

use std::sync::Arc;

use tidegate_memory::MemoryStore;

#[test]
fn every_store_gives_the_cores_answer_memory() {
    let open = || Arc::new(MemoryStore::default()) as Arc<dyn tidegate::contract::Store>;
    tidegate_conformance::walk::agrees_with_the_model(&open);
    tidegate_conformance::lone::agrees_with_the_model(&open);
}
