//! Slots for each of many keys, held for as long as they are renewed.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Amount;

use crate::clock::Clock;
use crate::error::{DecisionError, LeaseError};
use crate::key::Key;
use crate::lease_id::LeaseId;
use crate::pending::Pending;
use crate::request::Request;
use crate::set::LimitSet;

/// The key that is meant if none is said; `tidegate run --store` means it, too.
const USUAL_KEY: &[u8] = b"all";

/// A number of slots that holders share, wherever the store is reached from.
/// First come, first served, as the store keeps its line. Cloning shares it.
#[derive(Clone)]
pub struct LeasedSemaphore {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Arc<[u8]>,
    pub(super) slots: Amount,
    pub(super) priority: u8,
}

/// What a semaphore and its clones share.
pub(super) struct Shared {
    pub(super) set: LimitSet,
    /// The limit's name.
    pub(super) limit: String,
    pub(super) ttl: Duration,
    pub(super) longest_hold: Option<Duration>,
    pub(super) clock: Clock,
}

impl LeasedSemaphore {
    pub(super) fn new(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
            key: USUAL_KEY.into(),
            slots: 1,
            priority: 0,
        }
    }

    /// The one for `key`, with as many slots of its own; `all` if it is not said.
    #[must_use]
    pub fn of<'k>(&self, key: impl Into<Key<'k>>) -> Self {
        Self {
            key: key.into().bytes().into(),
            ..self.clone()
        }
    }

    /// The same, where each permit takes this many slots at once (1 if not said).
    #[must_use]
    pub fn many(&self, slots: Amount) -> Self {
        Self {
            slots,
            ..self.clone()
        }
    }

    /// The same, where a waiting request counts as having come this many seconds earlier.
    #[must_use]
    pub fn priority(&self, priority: u8) -> Self {
        Self {
            priority,
            ..self.clone()
        }
    }

    /// How many slots are free now.
    ///
    /// # Errors
    /// The store.
    pub fn available(&self) -> Pending<impl Future<Output = Result<Amount, DecisionError>> + Send> {
        Pending::new(async move {
            let limit = &self.shared.limit;
            let one = [(limit.as_str(), 1)];
            let peeked = self.set().peek(&*self.key, Request::named(&one)).await?;
            Ok(peeked.standing(limit).map_or(0, |stand| stand.remaining))
        })
    }

    /// Gives back a permit by its id, from wherever: one that was
    /// [detached](super::LeasedPermit::detach), or whose holder is known to be gone. No other
    /// than that one can be given back by it.
    ///
    /// # Errors
    /// No such permit of this key (any more); the store.
    pub fn release(
        &self,
        id: LeaseId,
    ) -> Pending<impl Future<Output = Result<(), LeaseError>> + Send> {
        Pending::new(async move { self.set().release(&*self.key, id).await.map(drop) })
    }

    /// The limit set that its permits are leases of.
    #[must_use]
    pub fn set(&self) -> &LimitSet {
        &self.shared.set
    }
}

impl fmt::Debug for LeasedSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedSemaphore")
            .field("name", &self.shared.limit)
            .field("key", &String::from_utf8_lossy(&self.key))
            .field("ttl", &self.shared.ttl)
            .finish_non_exhaustive()
    }
}
