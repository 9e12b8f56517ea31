//! What has changed, as a backend is to write it.

use smallvec::SmallVec;

use crate::bytes::encode_record;
use crate::ledger::{LeaseStage, Record};
use tidegate_core::Timestamp;

use super::leases::Known;
use super::rows::LoadedRow;
use super::{Attempt, Step};
use crate::error::StoreError;
use crate::optimistic::clock::Clock;
use crate::optimistic::exchange::{LeaseRow, LeaseWrite, RowWrite, WriteSet};
use crate::optimistic::stored_row;
use crate::owned::OwnedKey;
use crate::plan::Plan;
use crate::reply::Reply;

/// Most rows, and most records of leases, have no more bytes.
const USUAL: usize = 192;

impl Attempt<'_> {
    /// Ends the attempt. Nothing is written where nothing has changed.
    pub(super) fn finish(&mut self, reply: Option<Result<Reply, StoreError>>) -> Step {
        let leases = self.lease_writes();
        let changed = self.rows.all.iter().map(LoadedRow::has_changed);
        let changed: SmallVec<[bool; 8]> = changed.collect();
        let usage = self.used.writes(self.instant(), self.clock);
        if leases.is_empty() && usage.is_empty() && !changed.contains(&true) {
            return match reply {
                Some(reply) => Step::Done(reply),
                None => Step::Done(Err(StoreError::Unavailable("nothing was due".to_owned()))),
            };
        }
        let root = match self.request.path() {
            Ok(path) => path.root().into(),
            Err(error) => return Step::Done(Err(error)),
        };
        self.extend_keeping(&changed, &leases);
        let write_set = WriteSet {
            root,
            root_was_there: self.root_was_there,
            version: self.version,
            rows: self.row_writes(&changed),
            leases,
            usage,
            may_have_leases: self.leases.may_remain(),
        };
        Step::Write(write_set, reply)
    }

    /// The root is kept for as long as anything below it is.
    fn extend_keeping(&mut self, changed: &[bool], leases: &[LeaseWrite]) {
        let keep = self.own.plan.keep();
        let rows = self.rows.all.iter().zip(changed);
        let rows = rows.filter(|(_, changed)| **changed);
        let rows = rows.map(|(row, _)| self.forget_at(row));
        let leases = leases.iter().filter_map(|lease| lease.kept.as_ref());
        let leases = leases.map(|kept| kept.due + keep);
        let until = rows.chain(leases).max();
        self.head.until = self.head.until.max(until.unwrap_or(Timestamp::MIN));
    }

    /// The root's row, and those that have changed.
    fn row_writes(&self, changed: &[bool]) -> Vec<RowWrite> {
        let rows = self.rows.all.iter().zip(changed).enumerate();
        let written = rows.filter(|(at, (_, changed))| *at == 0 || **changed);
        written
            .map(|(at, (row, _))| self.row_write(row, at == 0))
            .collect()
    }

    fn row_write(&self, row: &LoadedRow, is_root: bool) -> RowWrite {
        let now = self.instant();
        let forget_at = self.forget_at(row);
        // Where the caller's clock decides, it may step back: what is spent is kept
        // until nothing is noted of it at all.
        let is_spent = match self.clock {
            Clock::Caller => row.is_fresh(),
            Clock::Server => forget_at <= now && forget_at < Timestamp::MAX,
        };
        let keep_until = match (self.clock, is_root) {
            (Clock::Caller, _) => Timestamp::MAX,
            (Clock::Server, true) => self.head.until,
            (Clock::Server, false) => forget_at,
        };
        let number = row.revision.unwrap_or(self.own.number);
        let head = is_root.then_some(&self.head);
        let own = row.own_limits(self.plan_of(number));
        let limits = stored_row::Limits {
            revision: number,
            own: own.as_deref(),
            retained: &row.retained,
        };
        let bytes = || {
            let mut bytes = Vec::with_capacity(USUAL);
            stored_row::encode(now, head, &limits, &row.states, &mut bytes);
            bytes
        };
        RowWrite {
            key: row.key.clone(),
            bytes: (is_root || !is_spent).then(bytes),
            forget_at,
            keep_until,
        }
    }

    /// From when on a row's states equal "never seen".
    fn forget_at(&self, row: &LoadedRow) -> Timestamp {
        row.forget_at(self.plan_of(row.revision.unwrap_or(self.own.number)))
    }

    /// The plan of a revision that was met, and is known by now.
    fn plan_of(&self, revision: u32) -> &Plan {
        let others = self.known.get(&revision);
        let other = others.filter(|_| revision != self.own.number);
        other.map_or(&self.own.plan, |revision| &revision.plan)
    }

    fn lease_writes(&self) -> Vec<LeaseWrite> {
        let changed = self.leases.known.iter();
        let changed = changed.filter(|(_, known)| known.is_changed);
        let write = |(&id, known): (&u128, &Known)| {
            let record = self.leases.ledger.get(id);
            let kept = record.map(|record| Self::lease_row(record, known.sequence));
            let matters = kept.is_some() || known.is_loaded;
            matters.then_some(LeaseWrite { id, kept })
        };
        let mut writes: Vec<LeaseWrite> = changed.filter_map(write).collect();
        writes.sort_unstable_by_key(|write| write.id);
        writes
    }

    fn lease_row(record: &Record<OwnedKey>, sequence: u64) -> LeaseRow {
        let mut bytes = Vec::with_capacity(USUAL);
        encode_record(record, &mut bytes);
        LeaseRow {
            owner: record.owner.bytes().into(),
            due: record.due_at(),
            sequence,
            idempotency_key: record.held_under().map(Into::into),
            is_live: matches!(record.stage, LeaseStage::Live),
            bytes,
        }
    }
}
