//! What is due about leases.

use crate::ledger::{LeaseStage, Record};
use tidegate_core::Timestamp;

use super::{Attempt, Need};
use crate::decide;
use crate::key::{KeyPath, MAX_LEVELS};
use crate::optimistic::exchange::{DueRange, LoadRequest};
use crate::optimistic::revision::PlanRevision;
use crate::owned::OwnedKey;
use crate::plan::Plan;

/// So many records are dealt with in one step, so that none takes long.
const MOST_AT_ONCE: usize = 256;

/// So many are loaded at once, when there are more than a few.
const HANDFUL: usize = 64;

impl Attempt<'_> {
    /// Deals with every lease that is due at `until`, by the plan of `revision`.
    pub(super) fn retire(&mut self, revision: &PlanRevision, until: Timestamp) -> Result<(), Need> {
        while let Some(record) = self.next_due(revision, until)? {
            if let Some(wanted) = self.missing_rows(revision, &record) {
                self.leases.pending = Some(record);
                return Err(Need::Load(wanted));
            }
            self.retired += 1;
            self.expire(revision, record, until);
            self.leases.note_changes(Some(&mut self.head.sequence));
        }
        Ok(())
    }

    /// The next record that is due, once all before it were loaded.
    fn next_due(
        &mut self,
        revision: &PlanRevision,
        until: Timestamp,
    ) -> Result<Option<Record<OwnedKey>>, Need> {
        if let Some(record) = self.leases.pending.take() {
            return Ok(Some(record));
        }
        if self.retired >= MOST_AT_ONCE || self.is_out_of_room(revision) {
            return Err(Need::Pause);
        }
        if self.leases.may_have_more(until) {
            let due = DueRange {
                after: self.leases.reached,
                most: HANDFUL,
            };
            return Err(Need::Load(LoadRequest {
                due: Some(due),
                ..LoadRequest::default()
            }));
        }
        Ok(self.leases.ledger.take_due(until))
    }

    /// Whether one more record, the rows of its owner and the command itself may not fit.
    fn is_out_of_room(&self, revision: &PlanRevision) -> bool {
        let written = 2 * self.retired + self.rows.all.len() + self.used.hours();
        // Of each row an hour of the record's, and one of the command's.
        let used = match self.own.plan.usage().or(revision.plan.usage()) {
            Some(_) => 2 * MAX_LEVELS,
            None => 0,
        };
        written + 2 + 2 + MAX_LEVELS + used > self.room
    }

    /// The rows of a record's owner that something is given back to and that were
    /// not loaded.
    fn missing_rows(
        &self,
        revision: &PlanRevision,
        record: &Record<OwnedKey>,
    ) -> Option<LoadRequest> {
        if !gives_back(&revision.plan, record) {
            return None;
        }
        let path = KeyPath::stored(record.owner.bytes(), revision.plan.levels()).ok()?;
        let missing = path.rows().filter(|key| self.rows.find(key).is_none());
        let rows: Vec<Box<[u8]>> = missing.map(Into::into).collect();
        (!rows.is_empty()).then(|| LoadRequest {
            rows,
            ..LoadRequest::default()
        })
    }

    fn expire(&mut self, revision: &PlanRevision, mut record: Record<OwnedKey>, until: Timestamp) {
        let owner = record.owner.clone();
        let Ok(path) = KeyPath::stored(owner.bytes(), revision.plan.levels()) else {
            return;
        };
        // Each row says itself by what it goes: a revision that was read from the backend
        // does not know what keys have for themselves.
        let plan = self.rows.plan_of(&path, revision);
        // A row that another revision wrote has nothing of this one's limits.
        let mut rows = self.rows.take_out(&path, revision);
        let ledger = &mut self.leases.ledger;
        let again = decide::expire(&plan, &mut rows, ledger, &mut record, until);
        self.rows.put_back(&path, rows, revision);
        self.used.take_in(&plan, &path, &mut self.leases.ledger);
        if let Some(again) = again {
            self.leases.ledger.put_back(record, again);
        }
    }
}

/// Whether the plan gives anything of a lease back when it expires.
fn gives_back(plan: &Plan, record: &Record<OwnedKey>) -> bool {
    let live = matches!(record.stage, LeaseStage::Live);
    let limit = |uid| plan.position(uid).map(|position| &plan.limits()[position]);
    let back = |uid| limit(uid).is_some_and(|limit| limit.refund_on_expiry);
    let mut shares = record.shares.iter();
    live && shares.any(|share| !share.forgotten && back(share.uid))
}
