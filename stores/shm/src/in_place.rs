//! Leases in place: those that the fast path has made of a root and that are held still, up
//! to two. They stand in one record of the root as words that are filled and given up where
//! they are; any other lease has two records of its own, which are put into a tree, taken out
//! of it and encoded each time.
//!
//! ```text
//! how many u64, their process (namespace u64, pid u64, start u64), words of one u64,
//! and for each
//!   id u128, granted i64, expires i64, fence u64, sequence u64,
//!   n u64, n x (uid u64, amount u64, reference i64)
//! ```
//! Words of the machine's order. What stands behind as many as there are counts for nothing:
//! it is filled without a note in the journal, and the number is written last.
//!
//! Nobody else looks at this record: whoever comes to a root by any other way
//! [takes them out](take_out) first, and gives each of these leases its two records. So that this
//! finds room, the record has as many blocks as those, and no more than half of what a full
//! segment keeps for those who give back: a root whose leases would take more has none in place.

use smallvec::SmallVec;
use tidegate_store::core::{ChargeReference, Timestamp};
use tidegate_store::ledger::{Record, Share};
use tidegate_store::{Granted, OwnedKey};

use crate::error::Fault;
use crate::keys::{RootKeys, kind};
use crate::process::Process;
use crate::tree::{self, Key};
use crate::txn::{SPARE, Txn};

/// So many leases of a root are in place at most.
const MOST: usize = 2;

/// Words before the leases.
const HEAD: usize = 5;

/// Words of a lease before its shares.
const ONE: usize = 7;

/// Words of a share.
const SHARE: usize = 3;

/// The record of a root that this process has at hand.
#[derive(Debug)]
pub(crate) struct InPlace {
    /// Where its words are.
    places: Vec<usize>,
    /// With whom they end.
    process: Process,
    /// Words of one.
    stride: usize,
    ids: SmallVec<[u128; MOST]>,
}

impl InPlace {
    /// A record for leases with as many shares as one whose record would have so many bytes,
    /// which end with a process.
    pub(crate) fn make(
        txn: &mut Txn<'_>,
        keys: &RootKeys,
        (process, shares, bytes): (Process, usize, usize),
    ) -> Result<Self, Fault> {
        let key = keys.of(kind::IN_PLACE, &[]);
        let stride = ONE + SHARE * shares;
        let words = (HEAD + MOST * stride).max(words_of_records(key.len(), bytes));
        txn.put(keys.bucket, &key, &vec![0; words * size_of::<u64>()])?;
        let found = txn.find(keys.bucket, &Key::new(&key))?;
        let record = found.ok_or(Fault::Corrupt("a record that was put is not kept"))?;
        let places = txn.places(record)?;
        let Process {
            namespace,
            pid,
            start,
        } = process;
        let head = [0, namespace, pid.into(), start, stride as u64];
        for (place, word) in places.iter().zip(head) {
            txn.fill(*place, word);
        }
        Ok(Self {
            places,
            process,
            stride,
            ids: SmallVec::new(),
        })
    }

    /// Whether leases of a root, of so many bytes each, find room when they are taken out.
    pub(crate) fn suits(keys: &RootKeys, bytes: usize) -> bool {
        let key = keys.of(kind::IN_PLACE, &[]).len();
        blocks_of_records(key, bytes) as u64 <= SPARE / 2
    }

    /// Whether another lease that ends with `process` can stand here.
    pub(crate) fn takes(&self, process: Process, shares: usize) -> bool {
        self.ids.len() < MOST && self.process == process && ONE + SHARE * shares <= self.stride
    }

    /// Where the words of the lease at `position` are.
    fn places_of(&self, position: usize) -> &[usize] {
        let begins = HEAD + position * self.stride;
        self.places.get(begins..begins + self.stride).unwrap_or(&[])
    }

    /// Keeps a new lease, which it [takes](Self::takes).
    pub(crate) fn add(
        &mut self,
        txn: &mut Txn<'_>,
        lease: &Record<OwnedKey>,
        sequence: u64,
    ) -> Result<(), Fault> {
        let granted = &lease.granted;
        let mut places = self.places_of(self.ids.len()).iter();
        let mut fill = |word: u64| {
            if let Some(place) = places.next() {
                txn.fill(*place, word);
            }
        };
        fill(granted.id as u64);
        fill((granted.id >> 64) as u64);
        fill(granted.granted_at.as_micros().cast_unsigned());
        fill(granted.expires_at.as_micros().cast_unsigned());
        fill(granted.fence);
        fill(sequence);
        fill(lease.shares.len() as u64);
        for share in &lease.shares {
            fill(share.uid.into());
            fill(share.amount);
            fill(share.reference.as_i64().cast_unsigned());
        }
        self.ids.push(granted.id);
        self.write_number(txn)
    }

    /// Ends a lease of which nothing is remembered; `false`: it stands elsewhere.
    pub(crate) fn end(&mut self, txn: &mut Txn<'_>, id: u128) -> Result<bool, Fault> {
        let Some(position) = self.ids.iter().position(|other| *other == id) else {
            return Ok(false);
        };
        let last = self.ids.len() - 1;
        if position < last {
            // The last one takes its place.
            let (from, to) = (self.places_of(last), self.places_of(position));
            for (from, to) in from.iter().zip(to) {
                let word = txn.get(*from)?;
                txn.write(*to, word)?;
            }
        }
        self.ids.swap_remove(position);
        self.write_number(txn)?;
        Ok(true)
    }

    fn write_number(&self, txn: &mut Txn<'_>) -> Result<(), Fault> {
        let place = self.places.first().ok_or(SHORT)?;
        txn.write(*place, self.ids.len() as u64)
    }
}

const SHORT: Fault = Fault::Corrupt("the record of leases in place is too short");

/// Whether no lease is in place by this record.
pub(crate) fn is_empty(record: &[u8]) -> bool {
    record
        .first_chunk()
        .is_some_and(|number| u64::from_ne_bytes(*number) == 0)
}

/// Words of a value whose record has as many blocks as those of as many leases as may be.
fn words_of_records(key: usize, lease: usize) -> usize {
    tree::words_in(blocks_of_records(key, lease), key)
}

/// Blocks of the records of as many leases as may be.
fn blocks_of_records(key: usize, lease: usize) -> usize {
    // With an instant and a number behind it, or an id.
    let longer = key + 16;
    MOST * (tree::blocks(longer, 16) + tree::blocks(longer, lease))
}

/// A lease that was in place.
pub(crate) struct TakenOut {
    /// With whom it ends.
    pub(crate) process: Process,
    pub(crate) lease: Record<OwnedKey>,
    pub(crate) sequence: u64,
}

/// Takes the leases in place of a root out of their record, and removes that.
pub(crate) fn take_out(
    txn: &mut Txn<'_>,
    keys: &RootKeys,
) -> Result<SmallVec<[TakenOut; MOST]>, Fault> {
    let key = keys.of(kind::IN_PLACE, &[]);
    let Some(record) = txn.find(keys.bucket, &Key::new(&key))? else {
        return Ok(SmallVec::new());
    };
    let words = txn.places(record)?;
    let words = words.into_iter().map(|place| txn.get(place));
    let words = words.collect::<Result<Vec<u64>, Fault>>()?;
    txn.remove(keys.bucket, &key)?;
    let (head, ones) = words.split_first_chunk::<HEAD>().ok_or(SHORT)?;
    let [number, namespace, pid, start, stride] = *head;
    let process = Process {
        namespace,
        pid: pid as u32,
        start,
    };
    let ones = ones.chunks_exact((stride as usize).max(ONE));
    let taken_out = ones.take(number as usize).map(|one| {
        let (lease, sequence) = decode(one, keys.root())?;
        Ok(TakenOut {
            process,
            lease,
            sequence,
        })
    });
    taken_out.collect()
}

fn decode(one: &[u64], owner: &[u8]) -> Result<(Record<OwnedKey>, u64), Fault> {
    let (head, shares) = one.split_first_chunk::<ONE>().ok_or(SHORT)?;
    let [low, high, granted_at, expires_at, fence, sequence, number] = *head;
    let granted = Granted {
        id: u128::from(high) << 64 | u128::from(low),
        granted_at: Timestamp::from_micros(granted_at.cast_signed()),
        expires_at: Timestamp::from_micros(expires_at.cast_signed()),
        fence,
        repeated: false,
    };
    let (shares, _) = shares.as_chunks::<SHARE>();
    let shares = shares.get(..number as usize).ok_or(SHORT)?;
    let share = |&[uid, amount, reference]: &[u64; SHARE]| Share {
        uid: uid as u32,
        amount,
        reference: ChargeReference::from_i64(reference.cast_signed()),
        forgotten: false,
        counted_at: None,
    };
    let shares = shares.iter().map(share).collect();
    Ok((Record::new(OwnedKey::new(owner), shares, granted), sequence))
}
