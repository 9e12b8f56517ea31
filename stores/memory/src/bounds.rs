//! How much a table may hold.

use tidegate_store::key::MAX_LEVELS;
use tidegate_store::{LeaseBounds, TableBounds};

/// How much each table of a store may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The most keys (and ancestors) whose state matters at once. Of usage, where it is
    /// counted, there are at most four times as many records.
    pub max_keys: usize,
    /// The most of them under one root, where keys have levels; `None`: half of all,
    /// and 8 at least.
    pub max_keys_per_root: Option<usize>,
    /// The most leases held at once.
    pub max_leases: usize,
    /// The most leases held at once by keys of one root; `None`: half of all, and
    /// no more than 65,536.
    pub max_leases_per_root: Option<usize>,
    /// The most leases that are remembered after their end; those that would be
    /// forgotten next give way first, and no lease is refused for them.
    pub max_remembered_leases: usize,
}

/// How many leases one root may hold unless told otherwise.
const MAX_LEASES_PER_ROOT: usize = 65_536;

impl Bounds {
    /// These, where `asked` does not say otherwise.
    #[must_use]
    pub fn within(self, asked: &TableBounds) -> Self {
        Self {
            max_keys: asked.max_keys.unwrap_or(self.max_keys),
            max_keys_per_root: asked.max_keys_per_root.or(self.max_keys_per_root),
            max_leases: asked.max_leases.unwrap_or(self.max_leases),
            max_leases_per_root: asked.max_leases_per_root.or(self.max_leases_per_root),
            max_remembered_leases: asked
                .max_remembered_leases
                .unwrap_or(self.max_remembered_leases),
        }
    }

    /// How many keys there may be under one root: one with all its ancestors at least.
    pub(crate) fn of_root(self) -> usize {
        let half = self.max_keys.div_ceil(2).max(MAX_LEVELS);
        self.max_keys_per_root.unwrap_or(half)
    }

    /// How many records of usage there may be: so many hours of a limit for each key, on
    /// average.
    pub(crate) const fn of_usage(self) -> usize {
        self.max_keys.saturating_mul(4)
    }

    /// How leases are bounded.
    pub(crate) fn of_leases(self) -> LeaseBounds {
        let half = self.max_leases.div_ceil(2).min(MAX_LEASES_PER_ROOT);
        LeaseBounds {
            max_leases: self.max_leases,
            max_leases_per_root: self.max_leases_per_root.unwrap_or(half),
            max_remembered: self.max_remembered_leases,
        }
    }
}

impl Default for Bounds {
    /// A little over a million keys and leases, and a quarter as many remembered.
    fn default() -> Self {
        Self {
            max_keys: 1 << 20,
            max_keys_per_root: None,
            max_leases: 1 << 20,
            max_leases_per_root: None,
            max_remembered_leases: 1 << 18,
        }
    }
}
