//! What an adaptive limit and its permits share: the estimator, and the set that its limit
//! is given to.

use tidegate_core::Amount;
use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicUsize, Ordering};

use super::estimator::Estimator;
use super::sample::Sample;
use crate::decision::Decision;
use crate::set::LimitSet;

/// What clones of a limit and its permits share.
#[derive(Debug)]
pub(super) struct Shared {
    pub set: LimitSet,
    /// The limit's name.
    limit: String,
    estimator: Mutex<Estimator>,
    /// How many permits there are.
    permits: AtomicUsize,
}

impl Shared {
    pub const fn new(set: LimitSet, limit: String, estimator: Estimator) -> Self {
        Self {
            set,
            limit,
            estimator: Mutex::new(estimator),
            permits: AtomicUsize::new(0),
        }
    }

    /// The limit now.
    pub fn now(&self) -> Amount {
        self.estimator.lock().limit()
    }

    /// What is in flight after a decision; nothing where it does not say.
    pub fn in_flight(&self, decision: &Decision) -> Option<Amount> {
        let now = decision.standing(self.limit.as_str())?;
        Some((now.limit + now.debt).saturating_sub(now.remaining))
    }

    pub fn began(&self) {
        self.permits.fetch_add(1, Ordering::Relaxed);
    }

    pub fn ended(&self) {
        self.permits.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes a sample in; the limit after it.
    pub fn observe(&self, sample: &Sample) -> Amount {
        let limit = self.estimator.lock().observe(sample);
        self.put(limit)
    }

    /// Takes over what others hold, if that is more than the limit and this process has none
    /// of it.
    pub fn refused(&self, decision: &Decision) {
        let Some(in_flight) = self.in_flight(decision) else {
            return;
        };
        if self.permits.load(Ordering::Relaxed) == 0 {
            let limit = self.estimator.lock().raise_to(in_flight);
            self.put(limit);
        }
    }

    /// Gives the set the limit, or the one that has come after it.
    fn put(&self, mut limit: Amount) -> Amount {
        // Requests that wait are woken by it, so no lock is held meanwhile; of two that set it
        // at once the later one sets it right.
        while self.set.capacity(self.limit.as_str()) != Some(limit) {
            if self.set.set_capacity(&self.limit, limit).is_err() {
                // The limit is gone, or adaptive no more: whoever changed it meant that.
                break;
            }
            limit = self.estimator.lock().limit();
        }
        limit
    }
}
