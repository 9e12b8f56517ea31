//! How a semaphore is made.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Amount;
use tidegate_store::Store;

use super::mutex::LeasedMutex;
use super::semaphore::{LeasedSemaphore, Shared};
use crate::clock::Clock;
use crate::error::BuildError;
use crate::limit::Limit;
use crate::set::{LimitSet, LimitSetBuilder, lease_span};

/// How long a permit outlives its holder, unless said otherwise.
const TTL: Duration = Duration::from_secs(30);

/// Makes a [`LeasedSemaphore`] or a [`LeasedMutex`]: their `builder` begins one.
#[must_use = "nothing is made until it is built"]
pub struct LeasedBuilder<L> {
    name: String,
    slots: Amount,
    ttl: Duration,
    longest_hold: Option<Duration>,
    set: LimitSetBuilder,
    made: PhantomData<fn() -> L>,
}

impl<L> LeasedBuilder<L> {
    fn new(name: String, slots: Amount) -> Self {
        Self {
            // Its only key may hold all leases that there are, and wait in all places.
            set: LimitSet::builder()
                .name(name.clone())
                .max_leases_per_root(usize::MAX)
                .max_waiting_per_root(usize::MAX),
            name,
            slots,
            ttl: TTL,
            longest_hold: None,
            made: PhantomData,
        }
    }

    /// Keeps its slots in `store`, and shares them with whoever says the same
    /// name there: other processes, `tidegate run --store URL --policy NAME
    /// --limit NAME=SLOTS`, a server with such a policy. Without it they are this
    /// process's (feature `memory`).
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.set = self.set.store(store);
        self
    }

    /// How long a permit outlives its holder (30 s if not said; 1 ms to 400
    /// days): it is renewed each time a third of it has passed. Beyond a network
    /// a second is short.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// No permit is held for longer than this, whatever its holder does: then it
    /// is renewed no more, and lost. Without it, a holder that hangs in a process
    /// that lives keeps its slots for ever.
    pub fn longest_hold(mut self, longest: Duration) -> Self {
        self.longest_hold = Some(longest);
        self
    }

    /// Reads the time from `clock`.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.set = self.set.clock(clock);
        self
    }

    /// The most who may wait in this process at once (10,000 if not said).
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.set = self.set.max_waiting(max_waiting);
        self
    }

    fn semaphore(self) -> Result<LeasedSemaphore, BuildError> {
        let ttl = self.longest_hold.map_or(self.ttl, |l| l.min(self.ttl));
        lease_span(ttl).ok_or(BuildError::LeaseLength(ttl))?;
        let limit = Limit::concurrency(self.name.as_str(), self.slots);
        let set = self.set.limit(limit).build()?;
        // Now, and not with the first permit: so a permit that is granted is kept.
        set.inner().renewals().map_err(BuildError::NoWorker)?;
        Ok(LeasedSemaphore::new(Shared {
            clock: set.inner().clock.clone(),
            limit: self.name,
            ttl,
            longest_hold: self.longest_hold,
            set,
        }))
    }
}

impl LeasedSemaphore {
    /// Begins one of `slots` for each key, called `name` by its store.
    pub fn builder(name: impl Into<String>, slots: Amount) -> LeasedBuilder<Self> {
        LeasedBuilder::new(name.into(), slots)
    }
}

impl LeasedMutex {
    /// Begins one called `name` by its store.
    pub fn builder(name: impl Into<String>) -> LeasedBuilder<Self> {
        LeasedBuilder::new(name.into(), 1)
    }
}

impl LeasedBuilder<LeasedSemaphore> {
    /// The semaphore.
    ///
    /// # Errors
    /// No slots, or no name; a ttl out of range; a store that cannot be reached,
    /// or where this process has a semaphore (or a set) of that name: clone that.
    pub fn build(self) -> Result<LeasedSemaphore, BuildError> {
        self.semaphore()
    }
}

impl LeasedBuilder<LeasedMutex> {
    /// The mutex.
    ///
    /// # Errors
    /// As that of a semaphore.
    pub fn build(self) -> Result<LeasedMutex, BuildError> {
        self.semaphore().map(LeasedMutex)
    }
}

impl<L> fmt::Debug for LeasedBuilder<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedBuilder")
            .field("name", &self.name)
            .field("slots", &self.slots)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}
