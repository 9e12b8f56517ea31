//! What a table must answer, without any of what makes it fast: rows in an
//! ordered map, a ledger for each root, and `store`'s decision loop. No
//! shards, no words, no eviction, no bounds.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_core::{Bounds, Timestamp};
use tidegate_store::decide::{self, Row};
use tidegate_store::key::level_of_row;
use tidegate_store::{
    HeldLease, KeyCommand, KeyPath, LeaseCounts, Ledger, OwnedKey, Plan, Reply, StoreError,
};

/// Where the two differ, in words.
pub(crate) type Difference = String;

/// The most leases: as good as no bound.
const MANY: usize = usize::MAX;

/// See the [module](self).
pub(crate) struct Reference {
    plan: Arc<Plan>,
    rows: BTreeMap<Vec<u8>, Row>,
    /// Until when rows were in use by limits that are no longer. A store may carry a row
    /// over when it is used next, and have it until then.
    used_before: BTreeMap<Vec<u8>, Timestamp>,
    /// By root: a lease is looked at when something is asked of its root.
    ledgers: BTreeMap<Vec<u8>, Ledger<Vec<u8>>>,
    room: Arc<LeaseCounts>,
}

impl Reference {
    pub(crate) fn new(plan: &Arc<Plan>) -> Self {
        Self {
            plan: Arc::clone(plan),
            rows: BTreeMap::new(),
            used_before: BTreeMap::new(),
            ledgers: BTreeMap::new(),
            room: Arc::new(LeaseCounts::new(MANY)),
        }
    }

    /// As [`Table::execute`](tidegate_store::Table::execute).
    pub(crate) fn execute(&mut self, command: &KeyCommand<'_>) -> Result<Reply, StoreError> {
        if command.plan.version() < self.plan.version() {
            return Err(StoreError::StalePlan);
        }
        let root = command.key.root().to_vec();
        self.retire(&root, command.now);
        let mut rows = self.take_rows(&command.key);
        let room = Arc::clone(&self.room);
        let ledger = self
            .ledgers
            .entry(root)
            .or_insert_with(|| Ledger::new(room));
        let reply = decide::apply(command, &mut rows, ledger, command.key.bytes().to_vec());
        self.put_rows(&command.key, rows);
        reply
    }

    /// A table that shares a key's state has a row for it.
    pub(crate) fn share(&mut self, key: &KeyPath<'_>) {
        let rows = self.take_rows(key);
        self.put_rows(key, rows);
    }

    /// As [`Op::Adopt`](tidegate_store::Op::Adopt).
    pub(crate) fn adopt(&mut self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        let roots: Vec<_> = self.ledgers.keys().cloned().collect();
        roots.iter().for_each(|root| self.retire(root, now));
        for (key, row) in &self.rows {
            let until = self.row_forgets_at(key, row).max();
            let before = self.used_before.get(key).copied();
            self.used_before
                .extend(until.max(before).map(|until| (key.clone(), until)));
        }
        for (key, row) in &mut self.rows {
            let (level, by) = (
                level_of(key, plan),
                (plan.of_row(key), self.plan.of_row(key)),
            );
            if !plan.goes_on_from(&self.plan) || by.0.limits() != by.1.limits() {
                *row = decide::adopt_row(by.0, by.1, level, row, now, calendars);
            }
        }
        self.plan = Arc::clone(plan);
    }

    /// The latest instant up to `now` at which something came to equal "never
    /// seen": a store may have dropped it then.
    pub(crate) fn last_forgotten(&self, now: Timestamp) -> Timestamp {
        let past = self.forgets_at().filter(|&at| at <= now);
        past.fold(Timestamp::MIN, Timestamp::max)
    }

    /// Whether some lease is to be looked at by `now`.
    pub(crate) fn has_due(&self, now: Timestamp) -> bool {
        let mut ledgers = self.ledgers.values();
        ledgers.any(|ledger| ledger.next_due().is_some_and(|due| due <= now))
    }

    /// Whether something will not equal "never seen" by `at`.
    pub(crate) fn forgets_after(&self, at: Timestamp) -> bool {
        self.forgets_at().any(|forget_at| forget_at > at)
    }

    /// The keys and ancestors that do not equal "never seen" at `at`.
    pub(crate) fn keys_in_use(&self, at: Timestamp) -> BTreeSet<Vec<u8>> {
        let rows = self.rows.iter();
        let used = rows.filter(|(key, row)| self.row_forgets_at(key, row).any(|when| when > at));
        used.map(|(key, _)| key.clone()).collect()
    }

    /// Whether `key` was in use at `at` by limits of before.
    pub(crate) fn was_in_use(&self, key: &[u8], at: Timestamp) -> bool {
        self.used_before.get(key).is_some_and(|until| *until > at)
    }

    /// How many rows there ever were.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The leases that are held at `at`.
    pub(crate) fn leases(&self, at: Timestamp) -> Vec<HeldLease> {
        let mut held = Vec::new();
        for ledger in self.ledgers.values() {
            let (records, rest) = ledger.held_after((at, u64::MAX), usize::MAX, |id| id as u64);
            assert!(rest.is_none(), "a script has few leases");
            held.extend(records.into_iter().map(|record| HeldLease {
                key: OwnedKey::new(&record.owner),
                id: record.granted.id,
                granted_at: record.granted.granted_at,
                expires_at: record.granted.expires_at,
                fence: record.granted.fence,
                taken: record.shares.iter().map(|s| (s.uid, s.amount)).collect(),
            }));
        }
        held
    }

    /// From when on each state equals "never seen".
    fn forgets_at(&self) -> impl Iterator<Item = Timestamp> {
        let rows = self.rows.iter();
        rows.flat_map(|(key, row)| self.row_forgets_at(key, row))
    }

    fn row_forgets_at(&self, key: &[u8], row: &Row) -> impl Iterator<Item = Timestamp> {
        let range = self.plan.range(level_of(key, &self.plan));
        let limits = &self.plan.of_row(key).limits()[range];
        let states = limits.iter().zip(row);
        states.map(|(limit, state)| limit.rule.forget_at(state))
    }

    fn retire(&mut self, root: &[u8], now: Timestamp) {
        let plan = Arc::clone(&self.plan);
        while let Some(mut record) = self.ledgers.get_mut(root).and_then(|b| b.take_due(now)) {
            let owner = record.owner.clone();
            let path = KeyPath::stored(&owner, plan.levels()).expect("it was a key");
            let mut rows = self.take_rows(&path);
            let own = plan.at(&path);
            let plan = own.as_ref().unwrap_or(&plan);
            let ledger = self.ledgers.get_mut(root).expect("it had a record");
            let again = decide::expire(plan, &mut rows, ledger, &mut record, now);
            if let Some(again) = again {
                ledger.put_back(record, again);
            }
            self.put_rows(&path, rows);
        }
    }

    fn take_rows(&mut self, path: &KeyPath<'_>) -> Vec<Row> {
        let row = |level| {
            let kept = self.rows.remove(&*path.row(level));
            kept.unwrap_or_else(|| decide::fresh_row(&self.plan, level))
        };
        (0..path.depth()).map(row).collect()
    }

    fn put_rows(&mut self, path: &KeyPath<'_>, rows: Vec<Row>) {
        let keys = path.rows().map(Cow::into_owned);
        self.rows.extend(keys.zip(rows));
    }
}

/// The level of a stored key or ancestor.
fn level_of(key: &[u8], plan: &Plan) -> usize {
    level_of_row(key, plan.levels())
}
