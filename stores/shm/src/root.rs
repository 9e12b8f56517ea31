//! What is kept of one root, as the optimistic loop loads and writes it.

use tidegate_store::OwnedKey;
use tidegate_store::bytes::{decode_record, encode_record};
use tidegate_store::core::{DecodeError, Timestamp};
use tidegate_store::optimistic::exchange::LeaseRow;
use tidegate_store::optimistic::{
    DueRange, LoadReply, LoadRequest, RowAtHand, StoredLease, UsageWrite, WriteSet,
};

use crate::error::Fault;
use crate::in_place::{self, TakenOut};
use crate::kept::{Lease, NOBODY, Overview, Used};
use crate::keys::{RootKeys, kind, parted, place, process_of};
use crate::process::{self, Process};
use crate::tree::{Bytes, Key, Record, Site};
use crate::txn::Txn;

/// What becomes of a lease's process when the lease is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tie {
    /// A new lease ends with this process; any other goes on with its own.
    New(Process),
    /// This lease ends with this process from now on, and so does a new one.
    Taken(u128, Process),
    /// This lease ends with no process any more. It is written if it still ends with this one,
    /// which was killed, and else left as it is: another has renewed it since.
    Lapsed(u128, Process),
}

/// A place among the leases that are due: when, and its sequence number.
pub(crate) type DueAt = (Timestamp, u64);

/// A lease, and whose it is.
pub(crate) type Held = (u128, OwnedKey);

/// One root under the lock of its shard.
pub(crate) struct Root<'k> {
    pub(crate) keys: &'k RootKeys,
    pub(crate) overview: Overview,
    was: Overview,
}

impl<'k> Root<'k> {
    /// One of which nobody waits for anything.
    pub(crate) fn plain(keys: &'k RootKeys) -> Self {
        let overview = Overview::default();
        Self {
            keys,
            overview,
            was: overview,
        }
    }

    /// The record of its own row.
    pub(crate) fn own_row(&self, txn: &Txn<'_>) -> Result<Option<Record>, Fault> {
        let key = self.keys.of(kind::ROW, self.keys.root());
        txn.find(self.keys.bucket, &Key::new(&key))
    }

    /// Writes its own row, whose record was found; where it is afterwards, if it moves.
    pub(crate) fn write_own_row(
        &self,
        txn: &mut Txn<'_>,
        site: &Site,
        row: RowAtHand<'_>,
    ) -> Result<Option<Site>, Fault> {
        let bucket = self.keys.bucket;
        let word = |instant: Timestamp| u64::from_be_bytes(instant.as_micros().to_le_bytes());
        let head = [word(row.forget_at), word(row.keep_until)];
        if txn.rewrite(bucket, site, (head, row.bytes))? {
            return Ok(None);
        }
        let key = self.keys.of(kind::ROW, self.keys.root());
        txn.put(bucket, &key, &row_bytes(row))?;
        let record = self.own_row(txn)?;
        let record = record.ok_or(Fault::Corrupt("a row that was written is not kept"))?;
        txn.site(record).map(Some)
    }

    /// One whose leases all have records of their own.
    pub(crate) fn load(txn: &mut Txn<'_>, keys: &'k RootKeys) -> Result<Self, Fault> {
        let found = txn.look_up(keys.bucket, &keys.of(kind::OVERVIEW, &[]))?;
        let overview = match found {
            Some(bytes) => Overview::decode(&bytes)?,
            None => Overview::default(),
        };
        let root = Self {
            keys,
            was: overview,
            overview,
        };
        root.settle(txn)?;
        Ok(root)
    }

    /// Gives each lease in place its records. What a root has from then on is what the loop loads
    /// and writes.
    fn settle(&self, txn: &mut Txn<'_>) -> Result<(), Fault> {
        for TakenOut {
            process,
            lease,
            sequence,
        } in in_place::take_out(txn, self.keys)?
        {
            let mut record = Vec::new();
            encode_record(&lease, &mut record);
            let kept = Lease {
                due: lease.due_at(),
                sequence,
                process,
                idempotency_key: None,
                record: &record,
            };
            if !self.add_lease(txn, lease.granted.id, &kept)? {
                return Err(Fault::Corrupt("a lease in place is kept elsewhere, too"));
            }
        }
        Ok(())
    }

    /// Writes what has changed of the overview.
    pub(crate) fn save(&mut self, txn: &mut Txn<'_>) -> Result<(), Fault> {
        if self.overview == self.was {
            return Ok(());
        }
        let key = self.keys.of(kind::OVERVIEW, &[]);
        // Numbers of places begin anew where nobody has one.
        if self.overview.waiting == 0 {
            self.overview.next = 0;
        }
        if self.overview == Overview::default() {
            txn.remove(self.keys.bucket, &key)?;
        } else {
            txn.put(self.keys.bucket, &key, &self.overview.encode())?;
        }
        self.was = self.overview;
        Ok(())
    }

    /// What the loop wants to see.
    pub(crate) fn read(
        &self,
        txn: &Txn<'_>,
        wanted: &LoadRequest,
        now: Timestamp,
    ) -> Result<LoadReply, Fault> {
        let row = |key: &[u8]| {
            let found = txn.look_up(self.keys.bucket, &self.keys.of(kind::ROW, key))?;
            let behind = |bytes: Bytes| bytes.get(ROW_HEAD..).map(<[u8]>::to_vec);
            let whole =
                found.map(|bytes| behind(bytes).ok_or(Fault::Corrupt("a row is too short")));
            whole.transpose()
        };
        let rows = wanted
            .rows
            .iter()
            .map(|key| row(key))
            .collect::<Result<_, _>>()?;
        let mut leases = Vec::new();
        for id in &wanted.ids {
            leases.extend(self.lease(txn, *id, stored)?);
        }
        if let Some(key) = &wanted.idempotency_key {
            let key = self.keys.of(kind::IDEMPOTENCY, key);
            if let Some(id) = txn.look_up(self.keys.bucket, &key)? {
                leases.extend(self.lease(txn, id_of(&id)?, stored)?);
            }
        }
        if wanted.all_leases {
            leases.extend(self.due(txn, None, usize::MAX)?);
        }
        let due = match wanted.due {
            Some(DueRange { after, most }) => self.due(txn, after, most)?,
            None => Vec::new(),
        };
        Ok(LoadReply {
            now,
            version: None,
            rows,
            leases,
            due,
        })
    }

    /// What `see` makes of a lease, if it is kept.
    fn lease<T>(
        &self,
        txn: &Txn<'_>,
        id: u128,
        see: impl FnOnce(Lease<'_>) -> T,
    ) -> Result<Option<T>, Fault> {
        let found = txn.look_up(self.keys.bucket, &self.keys.lease(id))?;
        let seen = found.map(|bytes| Lease::decode(&bytes).map(see));
        Ok(seen.transpose()?)
    }

    /// The leases that are due next.
    pub(crate) fn due(
        &self,
        txn: &Txn<'_>,
        after: Option<DueAt>,
        most: usize,
    ) -> Result<Vec<StoredLease>, Fault> {
        let beginning = self.keys.of(kind::DUE, &[]);
        let mut from = match after {
            Some((due, sequence)) => self.keys.due(due, sequence),
            None => beginning.clone(),
        };
        let mut found = Vec::new();
        while found.len() < most
            && let Some(record) = txn.seek(self.keys.bucket, &from, true)?
        {
            from = txn.key(record)?;
            if !from.starts_with(&beginning) {
                break;
            }
            let id = id_of(&txn.value(record)?)?;
            let lease = self.lease(txn, id, stored)?;
            found.push(lease.ok_or(Fault::Corrupt("a lease is due that is not kept"))?);
        }
        Ok(found)
    }

    /// Writes what the loop says.
    pub(crate) fn write(
        &mut self,
        txn: &mut Txn<'_>,
        set: &WriteSet,
        tie: Tie,
    ) -> Result<(), Fault> {
        for row in &set.rows {
            let key = self.keys.of(kind::ROW, &row.key);
            match &row.bytes {
                Some(bytes) => {
                    let kept = row_bytes(RowAtHand {
                        forget_at: row.forget_at,
                        keep_until: row.keep_until,
                        bytes,
                    });
                    let is_new = txn.put(self.keys.bucket, &key, &kept)?;
                    txn.count_rows(u64::from(is_new), 0);
                }
                None => {
                    let was_there = txn.remove(self.keys.bucket, &key)?;
                    txn.count_rows(0, u64::from(was_there));
                }
            }
        }
        for lease in &set.leases {
            self.write_lease(txn, lease.id, lease.kept.as_ref(), tie)?;
        }
        for used in &set.usage {
            self.use_more(txn, used)?;
        }
        Ok(())
    }

    fn use_more(&self, txn: &mut Txn<'_>, more: &UsageWrite) -> Result<(), Fault> {
        let key = self.keys.used(&more.key, more.hour, &more.limit);
        let found = txn.look_up(self.keys.bucket, &key)?;
        let was = found.as_deref().map(Used::decode).transpose()?;
        let used = Used {
            over_at: more.over_at,
            keep_until: more.keep_until,
            amount: more.sum.applied_to(was.map_or(0, |was| was.amount)),
        };
        txn.put(self.keys.bucket, &key, &used.encode())?;
        Ok(())
    }

    fn write_lease(
        &mut self,
        txn: &mut Txn<'_>,
        id: u128,
        kept: Option<&LeaseRow>,
        tie: Tie,
    ) -> Result<(), Fault> {
        let bucket = self.keys.bucket;
        let found = txn.look_up(bucket, &self.keys.lease(id))?;
        let was = found.as_deref().map(Lease::decode).transpose()?;
        let Some(kept) = kept else {
            return was.map_or(Ok(()), |was| self.remove_lease(txn, id, &was));
        };
        let process = match (tie, &was) {
            _ if !kept.is_live => NOBODY,
            (Tie::Taken(taken, process), Some(_)) if taken == id => process,
            (Tie::Lapsed(lapsed, _), Some(_)) if lapsed == id => NOBODY,
            (Tie::New(process) | Tie::Taken(_, process), None) => process,
            (_, Some(was)) => was.process,
            (Tie::Lapsed(..), None) => NOBODY,
        };
        let lease = Lease {
            due: kept.due,
            sequence: kept.sequence,
            process,
            idempotency_key: kept.idempotency_key.as_deref(),
            record: &kept.bytes,
        };
        if let Some(key) = lease.idempotency_key {
            let key = self.keys.of(kind::IDEMPOTENCY, key);
            txn.put(bucket, &key, &id.to_be_bytes())?;
        }
        self.note_holder(txn, process)?;
        match &was {
            Some(was) => self.change_lease(txn, id, (was, &lease)),
            None => self.add_lease(txn, id, &lease).map(drop),
        }
    }

    /// Keeps a new lease, whose process is noted; whether none had its id.
    pub(crate) fn add_lease(
        &self,
        txn: &mut Txn<'_>,
        id: u128,
        lease: &Lease<'_>,
    ) -> Result<bool, Fault> {
        let bucket = self.keys.bucket;
        let due = self.keys.due(lease.due, lease.sequence);
        txn.put(bucket, &due, &id.to_be_bytes())?;
        txn.put(bucket, &self.keys.lease(id), &lease.encode())
    }

    fn change_lease(
        &self,
        txn: &mut Txn<'_>,
        id: u128,
        (was, lease): (&Lease<'_>, &Lease<'_>),
    ) -> Result<(), Fault> {
        let bucket = self.keys.bucket;
        if (lease.due, lease.sequence) != (was.due, was.sequence) {
            txn.remove(bucket, &self.keys.due(was.due, was.sequence))?;
            let due = self.keys.due(lease.due, lease.sequence);
            txn.put(bucket, &due, &id.to_be_bytes())?;
        }
        if let Some(key) = was.idempotency_key
            && lease.idempotency_key != Some(key)
        {
            self.unname(txn, key, id)?;
        }
        txn.put(bucket, &self.keys.lease(id), &lease.encode())?;
        Ok(())
    }

    /// Ends a lease of which nothing is remembered.
    pub(crate) fn end_lease(&self, txn: &mut Txn<'_>, id: u128) -> Result<(), Fault> {
        let found = txn.look_up(self.keys.bucket, &self.keys.lease(id))?;
        let found = found.ok_or(Fault::Corrupt("a lease at hand is not kept"))?;
        self.remove_lease(txn, id, &Lease::decode(&found)?)
    }

    fn remove_lease(&self, txn: &mut Txn<'_>, id: u128, was: &Lease<'_>) -> Result<(), Fault> {
        let bucket = self.keys.bucket;
        txn.remove(bucket, &self.keys.due(was.due, was.sequence))?;
        if let Some(key) = was.idempotency_key {
            self.unname(txn, key, id)?;
        }
        txn.remove(bucket, &self.keys.lease(id))?;
        Ok(())
    }

    /// The idempotency key names this lease no more, if it does.
    fn unname(&self, txn: &mut Txn<'_>, key: &[u8], id: u128) -> Result<(), Fault> {
        let key = self.keys.of(kind::IDEMPOTENCY, key);
        if txn.look_up(self.keys.bucket, &key)?.as_deref() == Some(&id.to_be_bytes()) {
            txn.remove(self.keys.bucket, &key)?;
        }
        Ok(())
    }

    /// Whether it is noted that a process may hold leases of the root.
    pub(crate) fn is_noted(&self, txn: &Txn<'_>, process: Process) -> Result<bool, Fault> {
        if process == NOBODY {
            return Ok(true);
        }
        let key = Key::new(&self.keys.holder(process));
        let found = txn.find(self.keys.bucket, &key)?;
        Ok(found.is_some())
    }

    /// Notes that a process may hold leases of the root.
    fn note_holder(&self, txn: &mut Txn<'_>, process: Process) -> Result<(), Fault> {
        if !self.is_noted(txn, process)? {
            txn.put(self.keys.bucket, &self.keys.holder(process), &[])?;
        }
        Ok(())
    }

    /// The processes that may hold leases of the root.
    pub(crate) fn holders(&self, txn: &Txn<'_>) -> Result<Vec<Process>, Fault> {
        let beginning = self.keys.of(kind::HOLDER, &[]);
        let (mut from, mut found) = (beginning.clone(), Vec::new());
        while let Some(record) = txn.seek(self.keys.bucket, &from, true)? {
            from = txn.key(record)?;
            let Some(rest) = from.strip_prefix(&*beginning) else {
                break;
            };
            let process = process_of(rest).ok_or(Fault::Corrupt("a holder is no process"))?;
            found.push(process);
        }
        Ok(found)
    }

    /// The same, but for this process.
    pub(crate) fn other_holders(&self, txn: &Txn<'_>) -> Result<Vec<Process>, Fault> {
        let (mut others, me) = (self.holders(txn)?, process::me());
        others.retain(|process| *process != me);
        Ok(others)
    }

    /// Whether a lease ends with a process.
    pub(crate) fn is_held_by(
        &self,
        txn: &Txn<'_>,
        id: u128,
        process: Process,
    ) -> Result<bool, Fault> {
        let is_its = self.lease(txn, id, |lease| lease.process == process)?;
        Ok(is_its == Some(true))
    }

    /// Those that end with a process, of some leases that are due after a place, and the
    /// place of the last of them; `None`: there are no more.
    pub(crate) fn held_by(
        &self,
        txn: &Txn<'_>,
        process: Process,
        (after, most): (Option<DueAt>, usize),
    ) -> Result<(Vec<Held>, Option<DueAt>), Fault> {
        let beginning = self.keys.of(kind::DUE, &[]);
        let mut from = match after {
            Some((due, sequence)) => self.keys.due(due, sequence),
            None => beginning.clone(),
        };
        let (mut found, mut last) = (Vec::new(), None);
        for _ in 0..most {
            let Some(record) = txn.seek(self.keys.bucket, &from, true)? else {
                return Ok((found, None));
            };
            from = txn.key(record)?;
            let Some(place) = from.strip_prefix(&*beginning) else {
                return Ok((found, None));
            };
            last = Some(place_of(place)?);
            let id = id_of(&txn.value(record)?)?;
            let held = self.lease(txn, id, |lease| {
                let is_its = lease.process == process;
                is_its.then(|| decode_record(lease.record)).transpose()
            })?;
            let held = held.transpose()?.flatten();
            found.extend(held.map(|record| (id, record.owner)));
        }
        Ok((found, last))
    }

    /// Leases that a process still has end with nobody.
    pub(crate) fn let_go(
        &self,
        txn: &mut Txn<'_>,
        process: Process,
        held: &[Held],
    ) -> Result<(), Fault> {
        for (id, _) in held {
            let key = self.keys.lease(*id);
            let Some(found) = txn.look_up(self.keys.bucket, &key)? else {
                continue;
            };
            let lease = Lease::decode(&found)?;
            if lease.process == process {
                let process = NOBODY;
                txn.put(self.keys.bucket, &key, &Lease { process, ..lease }.encode())?;
            }
        }
        Ok(())
    }

    /// A process that was killed holds nothing of the root any more.
    pub(crate) fn forget_holder(&self, txn: &mut Txn<'_>, process: Process) -> Result<(), Fault> {
        txn.remove(self.keys.bucket, &self.keys.holder(process))?;
        Ok(())
    }
}

/// What stands before the bytes of a row.
pub(crate) const ROW_HEAD: usize = 16;

/// What is kept of a row.
fn row_bytes(row: RowAtHand<'_>) -> Bytes {
    let mut kept = Bytes::new();
    kept.extend_from_slice(&row.forget_at.as_micros().to_le_bytes());
    kept.extend_from_slice(&row.keep_until.as_micros().to_le_bytes());
    kept.extend_from_slice(row.bytes);
    kept
}

/// Until when a row says that it matters, and from when on it may go.
pub(crate) fn row_instants(row: &[u8]) -> Result<(Timestamp, Timestamp), Fault> {
    let instant = |at: usize| {
        let bytes = row.get(at..at + 8)?.try_into().ok()?;
        Some(Timestamp::from_micros(i64::from_le_bytes(bytes)))
    };
    let both = instant(0).zip(instant(8));
    both.ok_or(Fault::Corrupt("a row is too short"))
}

pub(crate) fn id_of(bytes: &[u8]) -> Result<u128, Fault> {
    let bytes = bytes.try_into().ok().map(u128::from_be_bytes);
    bytes.ok_or(Fault::Corrupt("an id is no id"))
}

fn stored(lease: Lease<'_>) -> StoredLease {
    StoredLease {
        sequence: lease.sequence,
        bytes: lease.record.to_vec(),
    }
}

/// A place in the queue, of its bytes.
pub(crate) fn place_of(bytes: &[u8]) -> Result<(Timestamp, u64), Fault> {
    let place = parted(bytes);
    place.ok_or_else(|| DecodeError::Corrupt("a place is none").into())
}

/// The bytes of a place in the queue.
pub(crate) fn place_bytes((came, number): (Timestamp, u64)) -> [u8; 16] {
    place(came, number)
}
