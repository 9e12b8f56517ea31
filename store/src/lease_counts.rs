//! How many leases the ledgers of a table hold and remember, all together.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::StoreError;

/// A ledger sets room aside for so many leases at most.
pub(crate) const MOST_SET_ASIDE: usize = 32;

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
/// A ledger sets room aside for a few leases at once, so that one that comes and goes
/// is counted in the ledger alone. Near the bound it is room for one.
///
/// Of what may be remembered, half is for whichever ledger needs it; the other half
/// is divided evenly, so that no busy ledger makes the others forget.
#[derive(Debug)]
pub struct LeaseCounts {
    /// The leases that are held, and the room that ledgers have set aside.
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

    /// Sets room aside for leases: for how many.
    ///
    /// # Errors
    /// [`StoreError::LeasesFull`].
    pub(crate) fn set_aside(&self) -> Result<usize, StoreError> {
        let max_leases = self.max_leases.load(Ordering::Relaxed);
        let room_beside = |held: usize| {
            let left = max_leases.saturating_sub(held);
            (left > 0).then(|| (left / self.ledgers / 8).clamp(1, MOST_SET_ASIDE))
        };
        // Other ledgers set room aside at the same moment.
        let taken = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                Some(held + room_beside(held)?)
            });
        let room = taken.ok().and_then(room_beside);
        room.ok_or(StoreError::LeasesFull { max_leases })
    }

    /// Holds one more, whatever the bound.
    pub(crate) fn hold(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives room back that was set aside, or held.
    pub(crate) fn give_back(&self, room: usize) {
        self.held.fetch_sub(room, Ordering::Relaxed);
    }

    /// The most that one root may hold.
    #[inline]
    pub(crate) fn max_leases_per_root(&self) -> usize {
        self.max_leases_per_root.load(Ordering::Relaxed)
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

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Each looked at how many there are, and then took its room.
    #[test]
    fn ledgers_that_set_room_aside_at_once_keep_to_the_bound() {
        for _ in 0..2_000 {
            let bounds = LeaseBounds {
                max_leases: 1,
                max_leases_per_root: 1,
                max_remembered: 1,
            };
            let counts = LeaseCounts::bounded(bounds, 2);
            let together = Barrier::new(2);
            let set_aside = || {
                together.wait();
                counts.set_aside().is_ok()
            };
            let both = thread::scope(|scope| {
                let other = scope.spawn(set_aside);
                (set_aside(), other.join().expect("no panic"))
            });
            assert!(both.0 != both.1, "{both:?}");
        }
    }
}
