//! What this process knows of the roots that it has written or read lately: it decides by that
//! and writes on its version, so that a root that nobody else writes costs one request. A bounded
//! number of roots, in two generations: those that were not asked for in as long as a whole
//! generation was are forgotten.
//!
//! Who decides about a root here does so alone: the tasks of one process do not compete for a
//! version.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::sight::Sight;

/// So many roots a generation has.
const GENERATION: usize = 16_384;

/// What is larger is not kept.
pub(crate) const LARGEST: usize = 4_096;

/// A root's place: whoever has it decides.
pub(crate) type Place = Arc<tokio::sync::Mutex<Option<Sight>>>;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Box<[u8]>, Place>,
    old: HashMap<Box<[u8]>, Place>,
}

impl Known {
    /// The place of `root`.
    pub(crate) fn place(&self, root: &[u8]) -> Place {
        let mut both = self.0.lock();
        if let Some(place) = both.young.get(root) {
            return Arc::clone(place);
        }
        if both.young.len() >= GENERATION {
            both.old = mem::take(&mut both.young);
        }
        // One that others have at this moment may be here twice: then a version tells who was
        // first.
        let place = both.old.remove(root).unwrap_or_default();
        both.young.insert(root.into(), Arc::clone(&place));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_keeps_what_is_asked_for() {
        let known = Known::default();
        let hot = known.place(b"hot");
        for number in 0..4 * GENERATION as u32 {
            known.place(&number.to_be_bytes());
            if number.is_multiple_of(64) {
                assert!(Arc::ptr_eq(&hot, &known.place(b"hot")));
            }
        }
        let both = known.0.lock();
        assert!(both.young.len() + both.old.len() <= 2 * GENERATION);
    }
}
