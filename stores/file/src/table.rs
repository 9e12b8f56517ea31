//! One set's table: decides in memory, then waits as long as the journal says.

use std::sync::Arc;

use tidegate_contract::core::{Amount, Bounds, Standing, Timestamp, Verdict};
use tidegate_contract::{
    Command, Granted, HeldLease, HotCell, KeyPath, Listing, OwnedKey, Page, Plan, Reply,
    StoreError, Table, Verb,
};

use crate::journal::{Journal, Tracked};

/// A table of the memory store, and the journal of its file.
#[derive(Debug)]
pub(crate) struct FileTable {
    pub(crate) tracked: Arc<Tracked>,
    pub(crate) journal: Arc<Journal>,
}

impl FileTable {
    /// Something was changed, or answered from what was changed before.
    fn keep(&self) -> Result<(), StoreError> {
        self.tracked.touch();
        self.journal.keep()
    }
}

/// Whether an answer says that something was changed (also earlier: what is
/// repeated must not be lost either).
fn is_a_change(command: &Command<'_>, reply: &Reply) -> bool {
    match (command.verb, reply) {
        (Verb::Peek { .. }, _) => false,
        (Verb::Take { .. }, Reply::Decision(decision)) => decision.verdict.admitted(),
        _ => true,
    }
}

impl Table for FileTable {
    fn execute(&self, command: &Command<'_>) -> Result<Reply, StoreError> {
        if !matches!(command.verb, Verb::Peek { .. }) {
            self.journal.check()?;
        }
        let reply = self.tracked.memory.execute(command)?;
        if is_a_change(command, &reply) {
            self.keep()?;
        }
        Ok(reply)
    }

    fn admit_one(
        &self,
        plan: &Arc<Plan>,
        key: &[u8],
        amount: Amount,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        self.journal.check()?;
        let verdict = self.tracked.memory.admit_one(plan, key, amount, now)?;
        if verdict.admitted() {
            self.keep()?;
        }
        Ok(verdict)
    }

    fn check_one(
        &self,
        plan: &Arc<Plan>,
        key: &[u8],
        amount: Amount,
        now: Timestamp,
    ) -> Result<Option<(Verdict, Standing)>, StoreError> {
        self.journal.check()?;
        let checked = self.tracked.memory.check_one(plan, key, amount, now)?;
        if checked.is_some_and(|(verdict, _)| verdict.admitted()) {
            self.keep()?;
        }
        Ok(checked)
    }

    /// No cell is handed out: whoever swaps a word beside the lock neither notes
    /// the change, nor waits for the disk, nor is refused when it is full.
    fn pin(&self, _: &Arc<Plan>, _: &[u8], _: Timestamp) -> Option<Arc<HotCell>> {
        None
    }

    /// Returns once the plan is in the file, or the file cannot be written: then
    /// nothing is decided before it is.
    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        self.tracked.memory.adopt(plan, now, calendars);
        self.tracked.touch();
        // The error is met again by every command, until the plan is written.
        let _ = self.journal.flush();
    }

    fn find_repeated(
        &self,
        key: &KeyPath<'_>,
        ask: &[u8],
        now: Timestamp,
    ) -> Result<Option<Granted>, StoreError> {
        self.journal.check()?;
        let found = self.tracked.memory.find_repeated(key, ask, now)?;
        if found.is_some() {
            self.keep()?;
        }
        Ok(found)
    }

    fn list_keys(&self, listing: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError> {
        self.tracked.memory.list_keys(listing)
    }

    fn list_leases(&self, listing: &Listing<'_>) -> Result<Page<HeldLease>, StoreError> {
        self.tracked.memory.list_leases(listing)
    }

    fn leases_held(&self, now: Timestamp) -> Option<usize> {
        self.tracked.memory.leases_held(now)
    }

    fn leases_remembered(&self) -> Option<usize> {
        self.tracked.memory.leases_remembered()
    }

    fn holds_up(&self) -> bool {
        self.journal.holds_up()
    }

    fn len(&self) -> usize {
        self.tracked.memory.len()
    }
}
