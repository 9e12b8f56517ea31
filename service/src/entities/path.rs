//! An entity and its ancestors.

use std::fmt;
use std::sync::Arc;

use tidegate_store::key::push_segment;

/// An entity and its ancestors, the root first; at most eight of them.
#[derive(Clone, PartialEq, Eq)]
pub struct EntityPath {
    ids: Vec<Arc<str>>,
    key: Vec<u8>,
    charge_parents: bool,
}

impl EntityPath {
    /// From the entity up to its root.
    pub(super) fn upward(mut ids: Vec<Arc<str>>, charge_parents: bool) -> Self {
        ids.reverse();
        let mut key = Vec::with_capacity(ids.iter().map(|id| id.len() + 1).sum());
        for id in &ids {
            push_segment(&mut key, id.as_bytes());
        }
        Self {
            ids,
            key,
            charge_parents,
        }
    }

    /// The ids, the root's first, its own last.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.ids.iter().map(|id| &**id)
    }

    /// The id of the root.
    #[must_use]
    pub fn root(&self) -> &str {
        self.ids.first().map_or("", |id| id)
    }

    /// Which level it is at: 1 for a root.
    #[must_use]
    pub const fn level(&self) -> usize {
        self.ids.len()
    }

    /// The key of its limits: the ids with `/` between them.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether its ancestors are asked and charged, too.
    #[must_use]
    pub const fn charges_parents(&self) -> bool {
        self.charge_parents
    }
}

impl fmt::Debug for EntityPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.key))
    }
}
