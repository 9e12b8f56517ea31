//! A key that the holder of a handle shares with the table: what a grant covers is spent without a
//! look-up. What needs more than that (a grant to be asked for, limits that have changed) is the
//! table's.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_store::core::{Amount, Standing, Timestamp};
use tidegate_store::sync::MutexGuard;

use crate::answers::{self, GrantLevel};
use crate::key::Key;
use crate::node::{Node, SharedKey};

/// A key that is spent of without a look-up. Its node keeps it for as long as this lives.
pub struct PinnedKey {
    node: Arc<Node>,
    /// `Some` until it is dropped.
    key: Option<SharedKey>,
}

/// A request that was admitted by a grant. The key is locked for as long as this is there.
pub struct Spent<'k> {
    key: MutexGuard<'k, Key>,
    /// Which grant.
    at: usize,
}

impl Spent<'_> {
    /// Whether a shadow limit would have refused when it was granted.
    #[inline(always)]
    #[must_use]
    pub fn shadowed(&self) -> bool {
        matches!(self.key.grants.kept().get(self.at), Some(grant) if grant.told.shadowed)
    }

    /// Where the limit at `position` stands.
    #[inline(always)]
    #[must_use]
    pub fn level(&self, position: usize) -> GrantLevel {
        match self.key.grants.kept().get(self.at) {
            Some(grant) => GrantLevel::of(grant, position),
            None => GrantLevel::default(),
        }
    }

    /// Where each limit stands; `None` where the key does not reach its level.
    #[must_use]
    pub fn standings(&self) -> SmallVec<[Option<Standing>; 1]> {
        let grant = self.key.grants.kept().get(self.at);
        grant.map_or_else(SmallVec::new, answers::standings)
    }
}

impl PinnedKey {
    pub(crate) fn new(node: &Arc<Node>, key: SharedKey) -> Self {
        Self {
            node: Arc::clone(node),
            key: Some(key),
        }
    }

    /// Spends `amounts`, in the order of the limits of the plan `version`, at `now` by the clock
    /// by which the table is asked. `None`, and nothing has changed: ask the table.
    #[inline(always)]
    #[must_use]
    pub fn spend(&self, version: u64, amounts: &[Amount], now: Timestamp) -> Option<Spent<'_>> {
        let mut key = self.key.as_ref()?.lock();
        let at = key.spend(version, amounts, self.node.low_water(), now)?;
        Some(Spent { key, at })
    }
}

impl fmt::Debug for PinnedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedKey").finish_non_exhaustive()
    }
}

impl Drop for PinnedKey {
    fn drop(&mut self) {
        drop(self.key.take());
        self.node.arm();
    }
}
