//! Definitions, each of which has the next one as its parent.

use tidegate_store::definitions::MOST_ANCESTORS;
use tidegate_store::{Definition, Store};

use crate::later::wait_for;

/// Where their values have its key.
const PARENT_OFFSET: u8 = 1;

/// A value with the key of its `parent`, as [`Definition::parent_key`] reads it.
#[must_use]
pub fn below(parent: &[u8]) -> Vec<u8> {
    let length = (parent.len() as u32).to_le_bytes();
    [b"v\x01", &length[..], parent, b"more"].concat()
}

/// As many generations as a store reads at once.
///
/// # Panics
/// The store does not keep them.
pub fn define(store: &dyn Store, owner: &str) {
    for generation in 0..=MOST_ANCESTORS as u8 {
        let value = below(&[generation + 1]);
        let definition = Definition::new([generation], value);
        assert!(wait_for(store.define(owner, definition)).expect("room"));
    }
}

/// What is read of `key` and its ancestors.
///
/// # Panics
/// The store does not answer.
pub fn read(store: &dyn Store, owner: &str, key: &[u8]) -> Vec<Definition> {
    let found = store.definition_with_ancestors(owner, key, PARENT_OFFSET);
    wait_for(found).expect("an answer")
}
