//! The store around a store.

use std::future::ready;
use std::sync::{Arc, Weak};

use tidegate_store::{
    Abilities, Answer, AtomicBuckets, Command, Definition, Definitions, Execution, Follower, Out,
    Plan, Reply, Store, StoreError, StoreFuture, Table,
};

use super::shared::CircuitBreaker;

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
        match self.breaker.enter() {
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
        self.breaker.enter()?.around(self.store.last_plan(name))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.later(|store| store.definitions(owner, newer_than))
    }

    fn define(&self, owner: &str, definition: Definition) -> StoreFuture<bool> {
        self.later(|store| store.define(owner, definition))
    }

    /// What the store does for itself says nothing of those who ask it.
    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.store.follow(owner, follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.breaker.enter()?.around(self.store.open(name, plan))?;
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

struct BreakerTable {
    table: Arc<dyn Table>,
    breaker: Arc<CircuitBreaker>,
}

impl Table for BreakerTable {
    #[inline]
    fn execute(&self, command: &Command<'_>, mut out: Out<'_>) -> Execution {
        let entry = match self.breaker.enter() {
            Ok(entry) if command.patience.is_some() => entry.for_a_turn(),
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
                let answer = later.await;
                entry.end(outage(&answer));
                answer
            })
        })
    }

    fn atomic_buckets(&self) -> Option<&dyn AtomicBuckets> {
        self.table.atomic_buckets()
    }
}
