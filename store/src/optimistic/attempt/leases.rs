//! Those leases of a root that a command can meet: a part of its ledger.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::bytes::decode_record;
use crate::ledger::Record;
use tidegate_core::Timestamp;

use crate::error::StoreError;
use crate::lease_counts::LeaseCounts;
use crate::ledger::Ledger;
use crate::optimistic::exchange::{DueRange, StoredLease};
use crate::owned::OwnedKey;

/// A ledger as the decision loop wants it.
pub(super) type LeaseLedger = Ledger<OwnedKey>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Leases {
    pub(super) ledger: LeaseLedger,
    /// What is known of each record beside it.
    pub(super) known: HashMap<u128, Known, foldhash::fast::RandomState>,
    /// The position of the last record of those that are due first.
    pub(super) reached: Option<(Timestamp, u64)>,
    /// There are none after it.
    pub(super) exhausted: bool,
    /// A record that was taken out because it is due, and needs more rows.
    pub(super) pending: Option<Record<OwnedKey>>,
    expected: Option<DueRange>,
}

/// What is known of a record beside it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Known {
    /// Its sequence number, if it is kept or will be.
    pub(super) sequence: u64,
    /// Whether it was kept when it was loaded.
    pub(super) is_loaded: bool,
    /// Whether it has become otherwise since.
    pub(super) is_changed: bool,
}

impl Leases {
    pub(super) fn new() -> Self {
        // How many leases there are is for the backend to bound.
        let mut ledger = Ledger::new(Arc::new(LeaseCounts::new(usize::MAX)));
        ledger.note_changes();
        Self {
            ledger,
            known: HashMap::default(),
            reached: None,
            exhausted: false,
            pending: None,
            expected: None,
        }
    }

    /// These are being loaded.
    pub(super) const fn expect(&mut self, due: Option<DueRange>) {
        self.expected = due;
    }

    /// Whether the root has any lease.
    pub(super) fn has_any(&self) -> bool {
        self.known.values().any(|known| known.is_loaded)
    }

    /// Whether the root may have any lease by now.
    pub(super) fn may_remain(&self) -> bool {
        !self.exhausted || !self.ledger.is_empty() || self.pending.is_some()
    }

    /// Adds what was found, in the order in which it is due.
    pub(super) fn take_in(
        &mut self,
        others: Vec<StoredLease>,
        due: Vec<StoredLease>,
    ) -> Result<(), StoreError> {
        let mut found = Vec::new();
        for kept in due.iter().chain(&others) {
            found.push((decode_record(&kept.bytes)?, kept.sequence));
        }
        if let Some(expected) = self.expected.take() {
            self.exhausted = due.len() < expected.most;
            let last = due.len().checked_sub(1).and_then(|last| found.get(last));
            self.reached = last
                .map(|(record, sequence)| (record.due_at(), *sequence))
                .or(self.reached);
        }
        found.sort_by_key(|(record, sequence)| (record.due_at(), *sequence));
        for (record, sequence) in found {
            let (id, due_at) = (record.granted.id, record.due_at());
            let known = self.known.entry(id).or_default();
            if !std::mem::replace(&mut known.is_loaded, true) {
                known.sequence = sequence;
                self.ledger.put_back(record, due_at);
            }
        }
        // They are as they were kept.
        drop(self.ledger.take_changed());
        Ok(())
    }

    /// Whether there may be a record due by `until` that was not loaded.
    pub(super) fn may_have_more(&self, until: Timestamp) -> bool {
        !self.exhausted && self.reached.is_none_or(|(due, _)| due <= until)
    }

    /// Takes note of what the ledger says has changed. What was put in has its
    /// sequence number from `next`, unless it stayed where it was.
    pub(super) fn note_changes(&mut self, mut next: Option<&mut u64>) {
        for id in self.ledger.take_changed() {
            let known = self.known.entry(id).or_default();
            known.is_changed = true;
            if let (Some(next), true) = (&mut next, self.ledger.get(id).is_some()) {
                known.sequence = **next;
                **next += 1;
            }
        }
    }
}
