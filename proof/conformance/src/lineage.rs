//! Definitions that each name the next one as their parent.

use tidegate_store::definitions::MOST_ANCESTORS;
use tidegate_store::{Definition, Store};

use crate::later::wait_for;

/// Where their values name it.
const PARENT_AT: u8 = 1;

/// A value that names `parent`, as [`Definition::names`] reads it.
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

/// Which keys are read with `key`, itself the first.
///
/// # Panics
/// The store does not answer, or otherwise than of each by itself.
pub fn read(store: &dyn Store, owner: &str, key: &[u8]) -> Vec<Vec<u8>> {
    let found = wait_for(store.definition_with_ancestors(owner, key, PARENT_AT));
    let found = found.expect("an answer").into_iter();
    found.map(|one| one.key).collect()
}
