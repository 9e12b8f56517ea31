//! How many leases the ledgers of a table hold and remember, all together.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::StoreError;

/// How many leases a table may hold and remember.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseBounds {
    /// The most that are held at once.
    pub max_leases: usize,
    /// The most that are held at once by keys of one root.
    pub max_leases_per_root: usize,
    /// The most that are remembered after their end; where it is less than the
    /// number of ledgers, each of them remembers one.
    pub max_remembered: usize,
}

/// What the ledgers of a table share: how many leases they hold and remember.
///
/// Of what may be remembered, half is for whichever ledger needs it; the other half
/// is divided evenly, so that no busy ledger makes the others forget.
#[derive(Debug)]
pub struct LeaseCounts {
    held: AtomicUsize,
    remembered: AtomicUsize,
    ledgers: usize,
    max_leases: AtomicUsize,
    max_leases_per_root: AtomicUsize,
    max_remembered: AtomicUsize,
}

impl LeaseCounts {
    /// Counts for at most `max_leases` leases of any keys, for one ledger that forgets none
    /// before its time.
    #[must_use]
    pub const fn new(max_leases: usize) -> Self {
        let bounds = LeaseBounds {
            max_leases,
            max_leases_per_root: usize::MAX,
            max_remembered: usize::MAX,
        };
        Self::bounded(bounds, 1)
    }

    /// Counts within `bounds` for so many ledgers.
    #[must_use]
    pub const fn bounded(bounds: LeaseBounds, ledgers: usize) -> Self {
        Self {
            held: AtomicUsize::new(0),
            remembered: AtomicUsize::new(0),
            ledgers,
            max_leases: AtomicUsize::new(bounds.max_leases),
            max_leases_per_root: AtomicUsize::new(bounds.max_leases_per_root),
            max_remembered: AtomicUsize::new(bounds.max_remembered),
        }
    }

    /// From here on these are the bounds. What is beyond them stays, until it ends
    /// or its time has come.
    pub fn bound(&self, bounds: LeaseBounds) {
        self.max_leases.store(bounds.max_leases, Ordering::Relaxed);
        let per_root = &self.max_leases_per_root;
        per_root.store(bounds.max_leases_per_root, Ordering::Relaxed);
        let remembered = &self.max_remembered;
        remembered.store(bounds.max_remembered, Ordering::Relaxed);
    }

    /// How many leases are remembered after their end.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.remembered.load(Ordering::Relaxed)
    }

    /// Whether one more may be held, of a root that holds so many.
    pub(crate) fn check(&self, of_root: usize) -> Result<(), StoreError> {
        let max_leases = self.max_leases.load(Ordering::Relaxed);
        if self.held.load(Ordering::Relaxed) >= max_leases {
            return Err(StoreError::LeasesFull { max_leases });
        }
        let max_leases_per_root = self.max_leases_per_root.load(Ordering::Relaxed);
        if of_root >= max_leases_per_root {
            return Err(StoreError::RootLeasesFull {
                max_leases_per_root,
            });
        }
        Ok(())
    }

    pub(crate) fn hold(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a ledger that remembers so many may remember one more.
    pub(crate) fn may_remember_beside(&self, has: usize) -> bool {
        let half = self.max_remembered.load(Ordering::Relaxed) / 2;
        has < (half / self.ledgers).max(1) || self.remembered() < half
    }

    pub(crate) fn remember(&self) {
        self.remembered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn forget(&self) {
        self.remembered.fetch_sub(1, Ordering::Relaxed);
    }
}
