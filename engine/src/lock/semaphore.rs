//! Slots for each of many keys, held for as long as they are renewed.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Amount;

use super::acquire::{Patience, acquire};
use super::builder::{Builder, Shared};
use super::permit::Permit;
use crate::ask::Ask;
use crate::error::Error;
use crate::key::Key;
use crate::lease::LeaseId;
use crate::pending::Pending;
use crate::set::LimitSet;

/// The key that is meant if none is said; `tidegate run --store` means it, too.
const USUAL_KEY: &[u8] = b"all";

/// A number of slots that holders share, wherever the store is reached from.
/// First come, first served, as the store keeps its line. Cloning shares it.
#[derive(Clone)]
pub struct Semaphore {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Arc<[u8]>,
    pub(super) slots: Amount,
    pub(super) priority: u8,
}

impl Semaphore {
    /// Begins one of `slots` for each key, called `name` by its store.
    pub fn builder(name: impl Into<String>, slots: Amount) -> Builder<Self> {
        Builder::new(name.into(), slots)
    }

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

    /// The same, where who waits counts as having come this many seconds earlier.
    #[must_use]
    pub fn priority(&self, priority: u8) -> Self {
        Self {
            priority,
            ..self.clone()
        }
    }

    /// A permit, if it need not be waited for. `None`: not now.
    ///
    /// # Errors
    /// [`Error::NeverFits`]: more slots than there are. *Cannot tell*: if the
    /// store granted it all the same, the slot is back within its ttl.
    pub fn try_acquire(
        &self,
    ) -> Pending<impl Future<Output = Result<Option<Permit>, Error>> + Send> {
        self.acquire_within(Duration::ZERO)
    }

    /// A permit, waited for as long as it takes. Given up before its end, it gives back
    /// its place and what it was given.
    ///
    /// A store that does not answer is asked again for as long as one ttl, in such
    /// a way that a lost answer never takes a second slot.
    ///
    /// # Errors
    /// [`Error::NeverFits`]: more slots than there are. [`Error::QueueFull`].
    /// *Cannot tell*: if the store granted it all the same, the slot is back
    /// within its ttl.
    pub fn acquire(&self) -> Pending<impl Future<Output = Result<Permit, Error>> + Send> {
        Pending::new(async move {
            loop {
                if let Some(permit) = acquire(self, Patience::Endless).await? {
                    return Ok(permit);
                }
            }
        })
    }

    /// A permit, if it need not be waited for longer than this. `None`: it would.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn acquire_within(
        &self,
        longest_wait: Duration,
    ) -> Pending<impl Future<Output = Result<Option<Permit>, Error>> + Send> {
        Pending::new(acquire(self, Patience::Within(longest_wait)))
    }

    /// How many slots are free now.
    ///
    /// # Errors
    /// The store.
    pub fn available(&self) -> Pending<impl Future<Output = Result<Amount, Error>> + Send> {
        Pending::new(async move {
            let limit = &self.shared.limit;
            let one = [(limit.as_str(), 1)];
            let peeked = self.set().peek(&*self.key, Ask::named(&one)).await?;
            Ok(peeked.standing(limit).map_or(0, |stand| stand.remaining))
        })
    }

    /// Gives back a permit by its id, from wherever: one that was
    /// [detached](Permit::detach), or whose holder is known to be gone. No other
    /// than that one can be given back by it.
    ///
    /// # Errors
    /// No such permit of this key (any more); the store.
    pub fn release(&self, id: LeaseId) -> Pending<impl Future<Output = Result<(), Error>> + Send> {
        Pending::new(async move { self.set().release(&*self.key, id).await.map(drop) })
    }

    /// The limit set that its permits are leases of.
    #[must_use]
    pub fn set(&self) -> &LimitSet {
        &self.shared.set
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("name", &self.shared.limit)
            .field("key", &String::from_utf8_lossy(&self.key))
            .field("ttl", &self.shared.ttl)
            .finish_non_exhaustive()
    }
}
