//! How often what happened.

use tidegate_store::sync::atomic::{AtomicU64, Ordering};

/// What a node's tier has counted since its set was made, and what it holds now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TierStatistics {
    /// Requests that were admitted by a grant that was there, or came for them.
    pub admitted: u64,
    /// Requests that were refused by a refusal that was remembered, or came for them.
    pub refused: u64,
    /// Grants that were requested.
    pub requested: u64,
    /// Grants that came.
    pub granted: u64,
    /// Of those, grants that came too late, and were given back.
    pub late: u64,
    /// Grants of which something was given back.
    pub returned: u64,
    /// Keys of which it holds something, or remembers a refusal.
    pub keys: u64,
    /// Commands that the store has not answered yet, and what it is to be given back again as it did
    /// not answer.
    pub returning: u64,
}

/// See [`TierStatistics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) admitted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) asked: AtomicU64,
    pub(crate) granted: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) keys: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> TierStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TierStatistics {
            admitted: read(&self.admitted),
            refused: read(&self.refused),
            requested: read(&self.asked),
            granted: read(&self.granted),
            late: read(&self.late),
            returned: read(&self.returned),
            keys: read(&self.keys),
            returning: 0,
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
