//! The store around a store.

use std::future::ready;
use std::sync::{Arc, Weak};

use tidegate_contract::core::{Amount, Bounds, Standing, Timestamp, Verdict};
use tidegate_contract::{
    Abilities, Command, Definition, Definitions, Follower, HeldLease, HotCell, KeyPath, Later,
    Listing, OwnedKey, Page, Patience, Plan, RemoteTable, Reply, Sent, Store, StoreError, Table,
};

use crate::breaker::Breaker;

/// A store that asks another, for as long as that one answers.
#[derive(Clone)]
pub struct Guarded {
    store: Arc<dyn Store>,
    breaker: Arc<Breaker>,
}

impl Guarded {
    /// `store`, behind `breaker`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, breaker: Arc<Breaker>) -> Self {
        Self { store, breaker }
    }

    /// What stands before the store.
    #[must_use]
    pub const fn breaker(&self) -> &Arc<Breaker> {
        &self.breaker
    }

    fn later<T: Send + 'static>(&self, ask: impl FnOnce(&dyn Store) -> Later<T>) -> Later<T> {
        match self.breaker.enter() {
            Ok(entry) => {
                let answer = ask(&*self.store);
                Box::pin(async move { entry.end(answer.await) })
            }
            Err(away) => Box::pin(ready(Err(away))),
        }
    }
}

impl Store for Guarded {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        self.breaker.enter()?.end(self.store.last_plan(name))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> Later<Definitions> {
        self.later(|store| store.definitions(owner, newer_than))
    }

    fn define(&self, owner: &str, definition: Definition) -> Later<bool> {
        self.later(|store| store.define(owner, definition))
    }

    /// What the store does for itself says nothing of those who ask it.
    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.store.follow(owner, follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.breaker.enter()?.end(self.store.open(name, plan))?;
        Ok(Arc::new(GuardedTable {
            table,
            breaker: Arc::clone(&self.breaker),
        }))
    }
}

struct GuardedTable {
    table: Arc<dyn Table>,
    breaker: Arc<Breaker>,
}

impl GuardedTable {
    fn guard<T>(
        &self,
        ask: impl FnOnce(&dyn Table) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let entry = self.breaker.enter()?;
        entry.end(ask(&*self.table))
    }
}

impl Table for GuardedTable {
    fn execute(&self, command: &Command<'_>) -> Result<Reply, StoreError> {
        self.guard(|table| table.execute(command))
    }

    fn admit(
        &self,
        plan: &Arc<Plan>,
        key: &KeyPath<'_>,
        amounts: &[Amount],
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        self.guard(|table| table.admit(plan, key, amounts, now))
    }

    fn admit_one(
        &self,
        plan: &Arc<Plan>,
        key: &[u8],
        amount: Amount,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        self.guard(|table| table.admit_one(plan, key, amount, now))
    }

    fn check_one(
        &self,
        plan: &Arc<Plan>,
        key: &[u8],
        amount: Amount,
        now: Timestamp,
    ) -> Result<Option<(Verdict, Standing)>, StoreError> {
        let entry = self.breaker.enter()?;
        match self.table.check_one(plan, key, amount, now) {
            // It was not asked.
            Ok(None) => Ok(None),
            answer => entry.end(answer),
        }
    }

    fn pin(&self, plan: &Arc<Plan>, key: &[u8], now: Timestamp) -> Option<Arc<HotCell>> {
        self.table.pin(plan, key, now)
    }

    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        self.table.adopt(plan, now, calendars);
    }

    fn unpin(&self, key: &[u8], cell: Arc<HotCell>) {
        self.table.unpin(key, cell);
    }

    fn remote(&self) -> Option<&dyn RemoteTable> {
        self.table.remote().map(|_| self as &dyn RemoteTable)
    }

    fn list_keys(&self, listing: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError> {
        self.guard(|table| table.list_keys(listing))
    }

    fn list_leases(&self, listing: &Listing<'_>) -> Result<Page<HeldLease>, StoreError> {
        self.guard(|table| table.list_leases(listing))
    }

    fn leases_held(&self, now: Timestamp) -> Option<usize> {
        self.table.leases_held(now)
    }

    fn holds_up(&self) -> bool {
        self.table.holds_up()
    }

    fn len(&self) -> usize {
        self.table.len()
    }
}

impl RemoteTable for GuardedTable {
    fn send(&self, command: &Command<'_>) -> Sent {
        let entered = self.breaker.enter();
        // Nothing is sent if there is no place.
        let sent = entered.map(|entry| Some((entry, self.table.remote()?.send(command))));
        Box::pin(async move {
            match sent? {
                Some((entry, sent)) => entry.end(sent.await),
                None => Err(StoreError::Unavailable("the store is not remote".into())),
            }
        })
    }

    fn wait(&self, command: &Command<'_>, patience: &Patience) -> Option<Sent> {
        let remote = self.table.remote()?;
        let entry = match self.breaker.enter() {
            Ok(entry) => entry.for_a_turn(),
            Err(away) => return Some(Box::pin(ready(Err(away)))),
        };
        let sent = remote.wait(command, patience)?;
        Some(Box::pin(async move { entry.end(sent.await) }))
    }
}
