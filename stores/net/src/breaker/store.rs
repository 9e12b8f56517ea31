//! The store around a store.

use std::future::ready;
use std::sync::{Arc, Weak};

use tidegate_store::core::Timestamp;
use tidegate_store::{
    Abilities, Answer, AtomicBuckets, Change, Cleared, Command, Defined, Definition, Definitions,
    Event, Execution, Follower, Out, Page, Plan, Reply, Store, StoreError, StoreFuture, Table,
};

use super::ignored;
use super::shared::{CircuitBreaker, Entry};

/// A store that asks another, for as long as that one answers.
#[derive(Clone)]
pub struct BreakerStore {
    store: Arc<dyn Store>,
    breaker: Arc<CircuitBreaker>,
}

impl BreakerStore {
    /// `store`, behind `breaker`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, breaker: Arc<CircuitBreaker>) -> Self {
        Self { store, breaker }
    }

    /// What stands before the store.
    #[must_use]
    pub const fn breaker(&self) -> &Arc<CircuitBreaker> {
        &self.breaker
    }

    fn later<T: Send + 'static>(
        &self,
        request: impl FnOnce(&dyn Store) -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        match self.breaker.enter(false) {
            Ok(entry) => {
                let answer = request(&*self.store);
                StoreFuture::new(async move { entry.around(answer.await) })
            }
            Err(away) => StoreFuture::new(ready(Err(away))),
        }
    }
}

impl Store for BreakerStore {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        self.breaker
            .enter(false)?
            .around(self.store.last_plan(name))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.later(|store| store.definitions(owner, newer_than))
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        self.later(|store| store.definition(owner, key))
    }

    fn definitions_at(&self, owner: &str, keys: &[&[u8]]) -> StoreFuture<Vec<Option<Definition>>> {
        self.later(|store| store.definitions_at(owner, keys))
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        self.later(|store| store.definition_with_ancestors(owner, key, parent_offset))
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        self.later(|store| store.definitions_page(owner, prefix, after, most))
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        self.later(|store| store.change(owner, change))
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        self.later(|store| store.events(owner, subject, after, most, now))
    }

    fn clear(&self, prefix: &str, after: Option<&[u8]>) -> StoreFuture<Cleared> {
        self.later(|store| store.clear(prefix, after))
    }

    /// What the store does for itself says nothing of those who ask it.
    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.store.follow(owner, follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = self
            .breaker
            .enter(false)?
            .around(self.store.open(name, plan))?;
        Ok(Arc::new(BreakerTable {
            table,
            breaker: Arc::clone(&self.breaker),
        }))
    }
}

/// The words of a store that could not tell. Of a batch: if it could tell nothing of it.
fn outage(answer: &Answer) -> Option<&str> {
    match answer {
        Ok(Reply::Batch(answers)) => {
            let words = answers.first().and_then(outage);
            words.filter(|_| answers.iter().all(|answer| outage(answer).is_some()))
        }
        Ok(_) => None,
        Err(error) => error.outage(),
    }
}

/// Ends an entry by its answer.
pub(crate) fn end(entry: Entry, answer: &Answer, is_ignored: bool) {
    match answer {
        Err(_) if is_ignored => entry.ignore(),
        answer => entry.end(outage(answer)),
    }
}

struct BreakerTable {
    table: Arc<dyn Table>,
    breaker: Arc<CircuitBreaker>,
}

impl Table for BreakerTable {
    #[inline]
    fn execute(&self, command: &Command<'_>, mut out: Out<'_>) -> Execution {
        let entry = match self.breaker.enter(command.patience.is_some()) {
            Ok(entry) => entry,
            Err(away) => return out.ready(Err(away)),
        };
        let execution = self.table.execute(command, out.lend());
        if execution.is_ready() {
            entry.end(outage(out.answer()));
            return execution;
        }
        execution.map(|later| {
            StoreFuture::new(async move {
                let (answer, is_ignored) = ignored::answer_of(later).await;
                end(entry, &answer, is_ignored);
                answer
            })
        })
    }

    fn atomic_buckets(&self) -> Option<&dyn AtomicBuckets> {
        self.table.atomic_buckets()
    }
}
