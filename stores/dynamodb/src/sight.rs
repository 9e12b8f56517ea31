//! What is known of a root: as of one version of it, which a write is compared with.

use std::collections::HashMap;

use tidegate_store::optimistic::LoadRequest;

use crate::item::{LeaseItem, RootItem, Version};
use crate::keys;

/// So many rows and leases are known beside a root's row.
const MOST_BESIDE: usize = 64;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// The root's row; none if it is not there.
    pub(crate) root: Option<RootItem>,
    /// Rows below the root.
    pub(crate) rows: HashMap<Box<[u8]>, Option<Vec<u8>>>,
    /// Leases.
    pub(crate) leases: HashMap<u128, Option<LeaseItem>>,
}

impl Sight {
    /// Of a root, and nothing beside it.
    pub(crate) fn of(root: Option<RootItem>) -> Self {
        Self {
            root,
            ..Self::default()
        }
    }

    /// The version that a write is compared with.
    pub(crate) fn version(&self) -> Option<Version> {
        self.root.as_ref().map(|root| root.head.version)
    }

    /// Whether it shows what is wanted, but for leases that are taken to be new.
    pub(crate) fn shows(&self, wanted: &LoadRequest, is_take: bool) -> bool {
        let mut rows = wanted.rows.iter().skip(1);
        let mut ids = wanted.ids.iter();
        rows.all(|key| self.rows.contains_key(key))
            && (is_take || ids.all(|id| self.leases.contains_key(id)))
    }

    /// It with what an older one shows beside it, if that is of the same version.
    pub(crate) fn and(mut self, older: Option<Self>) -> Self {
        let older = older.filter(|older| older.version() == self.version());
        if let Some(older) = older {
            for (key, row) in older.rows {
                self.rows.entry(key).or_insert(row);
            }
            for (id, lease) in older.leases {
                self.leases.entry(id).or_insert(lease);
            }
        }
        self
    }

    /// How many bytes it has, about.
    fn size(&self) -> usize {
        let root = self.root.as_ref().and_then(|root| root.body.as_ref());
        let rows = self.rows.iter();
        let rows = rows.map(|(key, row)| key.len() + row.as_ref().map_or(0, Vec::len));
        let leases = self.leases.values().flatten();
        let leases = leases.map(|lease| 64 + lease.body.len());
        root.map_or(0, Vec::len) + rows.sum::<usize>() + leases.sum::<usize>()
    }

    /// It, if it is small enough to be kept; of a large one the root, or nothing.
    pub(crate) fn within(mut self, most: usize) -> Option<Self> {
        let beside = self.rows.len() + self.leases.len();
        if beside > MOST_BESIDE || self.size() > most {
            self.rows.clear();
            self.leases.clear();
        }
        (self.size() <= most).then_some(self)
    }
}

/// What an idempotency key is known by.
pub(crate) fn hash_of(wanted: &LoadRequest) -> Option<Vec<u8>> {
    let key = wanted.idempotency_key.as_deref();
    key.map(keys::idempotency_hash)
}
