//! What is kept of one root, as the optimistic loop loads and writes it.

use tidegate_store::bytes::decode_record;
use tidegate_store::core::{DecodeError, Timestamp};
use tidegate_store::ledger::LeaseStage;
use tidegate_store::optimistic::exchange::LeaseRow;
use tidegate_store::optimistic::{DueRange, LoadReply, LoadRequest, StoredLease, WriteSet};

use crate::error::Fault;
use crate::kept::{Lease, NOBODY, Overview};
use crate::keys::{RootKeys, kind, parted, place, process_bytes, process_of};
use crate::process::Process;
use crate::tree::Bytes;
use crate::txn::Txn;

/// What becomes of a lease's process when the lease is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tie {
    /// A new lease ends with this process; any other goes on with its own.
    New(Process),
    /// This lease ends with this process from now on, and so does a new one.
    Taken(u128, Process),
    /// This lease ends with no process any more.
    Let(u128),
    /// None ends with a process that did not before.
    None,
}

/// A lease, and whose it is.
pub(crate) type Held = (u128, Vec<u8>);

/// One root under the lock of its shard.
pub(crate) struct Root<'k> {
    pub(crate) keys: &'k RootKeys,
    pub(crate) overview: Overview,
    was: Overview,
}

impl<'k> Root<'k> {
    pub(crate) fn load(txn: &Txn<'_>, keys: &'k RootKeys) -> Result<Self, Fault> {
        let found = txn.look_up(keys.bucket, &keys.of(kind::OVERVIEW, &[]))?;
        let overview = match found {
            Some(bytes) => Overview::decode(&bytes)?,
            None => Overview::default(),
        };
        Ok(Self {
            keys,
            was: overview,
            overview,
        })
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
        after: Option<(Timestamp, u64)>,
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
                    let mut kept = Bytes::new();
                    kept.extend_from_slice(&row.forget_at.as_micros().to_le_bytes());
                    kept.extend_from_slice(&row.keep_until.as_micros().to_le_bytes());
                    kept.extend_from_slice(bytes);
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
        if let Some(was) = &was {
            let is_moved =
                kept.is_none_or(|kept| (kept.due, kept.sequence) != (was.due, was.sequence));
            if is_moved {
                txn.remove(bucket, &self.keys.due(was.due, was.sequence))?;
            }
            let is_renamed =
                |key: &[u8]| kept.is_none_or(|kept| kept.idempotency_key.as_deref() != Some(key));
            if let Some(key) = was.idempotency_key.filter(|key| is_renamed(key)) {
                self.unname(txn, key, id)?;
            }
        }
        let Some(kept) = kept else {
            if let Some(was) = &was {
                self.hold(txn, id, (was.process, NOBODY), &[])?;
            }
            txn.remove(bucket, &self.keys.lease(id))?;
            return Ok(());
        };
        let is_live = matches!(decode_record(&kept.bytes)?.stage, LeaseStage::Live);
        let process = match (tie, &was) {
            _ if !is_live => NOBODY,
            (Tie::Taken(taken, process), Some(_)) if taken == id => process,
            (Tie::Let(let_go), _) if let_go == id => NOBODY,
            (Tie::New(process) | Tie::Taken(_, process), None) => process,
            (_, Some(was)) => was.process,
            (Tie::None | Tie::Let(_), None) => NOBODY,
        };
        let before = was.as_ref().map_or(NOBODY, |was| was.process);
        self.hold(txn, id, (before, process), &kept.owner)?;
        let lease = Lease {
            due: kept.due,
            sequence: kept.sequence,
            process,
            idempotency_key: kept.idempotency_key.as_deref(),
            record: &kept.bytes,
        };
        if let Some(key) = &kept.idempotency_key {
            let key = self.keys.of(kind::IDEMPOTENCY, key);
            txn.put(bucket, &key, &id.to_be_bytes())?;
        }
        let due = self.keys.due(kept.due, kept.sequence);
        let is_there = was.is_some_and(|was| (was.due, was.sequence) == (kept.due, kept.sequence));
        if !is_there {
            txn.put(bucket, &due, &id.to_be_bytes())?;
        }
        txn.put(bucket, &self.keys.lease(id), &lease.encode())?;
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

    /// A lease that ended with a process ends with another.
    fn hold(
        &self,
        txn: &mut Txn<'_>,
        id: u128,
        (before, now): (Process, Process),
        owner: &[u8],
    ) -> Result<(), Fault> {
        if before == now {
            return Ok(());
        }
        if before != NOBODY {
            txn.remove(self.keys.bucket, &self.keys.holder(before, id))?;
        }
        if now != NOBODY {
            txn.put(self.keys.bucket, &self.keys.holder(now, id), owner)?;
        }
        Ok(())
    }

    /// The processes with which leases end.
    pub(crate) fn holders(&self, txn: &Txn<'_>) -> Result<Vec<Process>, Fault> {
        let beginning = self.keys.of(kind::HOLDER, &[]);
        let (mut from, mut found) = (beginning.clone(), Vec::new());
        while let Some(record) = txn.seek(self.keys.bucket, &from, true)? {
            let key = txn.key(record)?;
            let Some(rest) = key.strip_prefix(&*beginning) else {
                break;
            };
            let process = process_of(rest).ok_or(Fault::Corrupt("a holder is no process"))?;
            found.push(process);
            from = self.keys.holder(process, u128::MAX);
        }
        Ok(found)
    }

    /// Leases that end with a process, with whose they are.
    pub(crate) fn held_by(
        &self,
        txn: &Txn<'_>,
        process: Process,
        most: usize,
    ) -> Result<Vec<Held>, Fault> {
        let beginning = self.keys.of(kind::HOLDER, &process_bytes(process));
        let (mut from, mut found) = (beginning.clone(), Vec::new());
        while found.len() < most
            && let Some(record) = txn.seek(self.keys.bucket, &from, true)?
        {
            from = txn.key(record)?;
            let Some(id) = from.strip_prefix(&*beginning) else {
                break;
            };
            found.push((id_of(id)?, txn.value(record)?.into_vec()));
        }
        Ok(found)
    }

    /// What is said to be held by a process is not, any more.
    pub(crate) fn let_go(
        &self,
        txn: &mut Txn<'_>,
        process: Process,
        held: &[Held],
    ) -> Result<(), Fault> {
        for (id, _) in held {
            txn.remove(self.keys.bucket, &self.keys.holder(process, *id))?;
        }
        Ok(())
    }
}

/// What stands before the bytes of a row.
pub(crate) const ROW_HEAD: usize = 16;

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
