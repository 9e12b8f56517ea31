//! Where a key's row is looked for.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;

#[inline]
pub(crate) fn hash_of(hasher: &RandomState, key: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(key);
    state.finish()
}
