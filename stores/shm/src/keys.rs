//! What records are called. All of one root stand in one bucket, one after the other:
//!
//! ```text
//! table u32, length of the root u32, root, kind u8, and then
//!   1  nothing                         the root as a whole: `Overview`
//!   2  key                             a row: forget at i64, keep until i64, its bytes
//!   3  due i64, sequence u64           a lease in the order in which it is due: its id
//!   4  id u128                         a lease: `Lease`
//!   5  idempotency key                 its lease's id
//!   6  came i64, number u64            one that waits: `Waiter`
//!   7  turn u128                       its place: came, number
//!   8  process                         one that may hold leases that end with it: nothing
//!   9  nothing                         leases in place: see `in_place`
//!  10  length of the key u32, key,     what was used in an hour: `Used`
//!      hour u32, the limit's name
//! ```
//! Numbers are big-endian, those with a sign with their first bit turned: bytes are in
//! order as numbers are.

use tidegate_store::Hour;
use tidegate_store::core::Timestamp;

use crate::layout::shard;
use crate::process::Process;
use crate::tree::{self, KeyBytes};

/// The kinds of records of a root.
pub(crate) mod kind {
    pub(crate) const OVERVIEW: u8 = 1;
    pub(crate) const ROW: u8 = 2;
    pub(crate) const DUE: u8 = 3;
    pub(crate) const LEASE: u8 = 4;
    pub(crate) const IDEMPOTENCY: u8 = 5;
    pub(crate) const PLACE: u8 = 6;
    pub(crate) const TURN: u8 = 7;
    pub(crate) const HOLDER: u8 = 8;
    pub(crate) const IN_PLACE: u8 = 9;
    /// The last kind, behind all that goes with the root's row.
    pub(crate) const USAGE: u8 = 10;
    /// Behind all of them.
    pub(crate) const LAST: u8 = 255;
}

/// Where a root's records are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    pub(crate) shard: usize,
    pub(crate) bucket: usize,
}

/// The same, and with what their keys begin.
#[derive(Clone, Debug)]
pub(crate) struct RootKeys {
    pub(crate) shard: usize,
    pub(crate) bucket: usize,
    prefix: KeyBytes,
}

/// A record of some root of a table.
#[derive(Clone, Debug)]
pub(crate) struct Parsed<'k> {
    pub(crate) root: &'k [u8],
    pub(crate) kind: u8,
    pub(crate) rest: &'k [u8],
}

impl Spot {
    pub(crate) fn new(seed: u64, table: u32, root: &[u8]) -> Self {
        let hash = tree::hash_of(seed, u64::from(table), root) as usize;
        Self {
            shard: hash % shard::ROOTS,
            bucket: hash / shard::ROOTS % shard::BUCKETS,
        }
    }
}

impl RootKeys {
    pub(crate) fn new(seed: u64, table: u32, root: &[u8]) -> Self {
        let Spot { shard, bucket } = Spot::new(seed, table, root);
        let mut prefix = KeyBytes::new();
        prefix.extend_from_slice(&table.to_be_bytes());
        prefix.extend_from_slice(&(root.len() as u32).to_be_bytes());
        prefix.extend_from_slice(root);
        Self {
            shard,
            bucket,
            prefix,
        }
    }

    pub(crate) const fn spot(&self) -> Spot {
        Spot {
            shard: self.shard,
            bucket: self.bucket,
        }
    }

    /// The root.
    pub(crate) fn root(&self) -> &[u8] {
        &self.prefix[8..]
    }

    /// With what those of a kind begin.
    pub(crate) fn of(&self, kind: u8, rest: &[u8]) -> KeyBytes {
        let mut key = KeyBytes::from_slice(&self.prefix);
        key.push(kind);
        key.extend_from_slice(rest);
        key
    }

    pub(crate) fn due(&self, due: Timestamp, sequence: u64) -> KeyBytes {
        self.of(kind::DUE, &place(due, sequence))
    }

    pub(crate) fn holder(&self, process: Process) -> KeyBytes {
        self.of(kind::HOLDER, &process_bytes(process))
    }

    pub(crate) fn lease(&self, id: u128) -> KeyBytes {
        self.of(kind::LEASE, &id.to_be_bytes())
    }

    pub(crate) fn used(&self, row: &[u8], hour: Hour, limit: &str) -> KeyBytes {
        let mut key = self.of(kind::USAGE, &(row.len() as u32).to_be_bytes());
        key.extend_from_slice(row);
        key.extend_from_slice(&hour.number().to_be_bytes());
        key.extend_from_slice(limit.as_bytes());
        key
    }
}

/// The row, the hour and the limit of a record of usage, of what its key has behind the kind.
pub(crate) fn used_place(rest: &[u8]) -> Option<(&[u8], Hour, &str)> {
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let (hour, limit) = rest.split_first_chunk::<4>()?;
    let hour = Hour::new(u32::from_be_bytes(*hour));
    Some((key, hour, str::from_utf8(limit).ok()?))
}

/// Bytes of a process in a key.
const PROCESS: usize = 20;

/// A process in a key.
fn process_bytes(process: Process) -> [u8; PROCESS] {
    let mut bytes = [0; PROCESS];
    bytes[..8].copy_from_slice(&process.namespace.to_be_bytes());
    bytes[8..12].copy_from_slice(&process.pid.to_be_bytes());
    bytes[12..].copy_from_slice(&process.start.to_be_bytes());
    bytes
}

/// What [`process_bytes`] was made of.
pub(crate) fn process_of(bytes: &[u8]) -> Option<Process> {
    let (namespace, rest) = bytes.split_first_chunk::<8>()?;
    let (pid, rest) = rest.split_first_chunk::<4>()?;
    Some(Process {
        namespace: u64::from_be_bytes(*namespace),
        pid: u32::from_be_bytes(*pid),
        start: u64::from_be_bytes(*rest.first_chunk::<8>()?),
    })
}

/// An instant and a number, in order.
pub(crate) fn place(at: Timestamp, number: u64) -> [u8; 16] {
    let at = at.as_micros().cast_unsigned() ^ 1 << 63;
    let both = u128::from(at) << 64 | u128::from(number);
    both.to_be_bytes()
}

/// What [`place`] was made of.
pub(crate) fn parted(place: &[u8]) -> Option<(Timestamp, u64)> {
    let both = u128::from_be_bytes(place.try_into().ok()?);
    let at = ((both >> 64) as u64 ^ 1 << 63).cast_signed();
    Some((Timestamp::from_micros(at), both as u64))
}

/// A key of a root's record of the table whose number it begins with.
pub(crate) fn parse(key: &[u8]) -> Option<Parsed<'_>> {
    let (length, rest) = key.get(4..)?.split_first_chunk::<4>()?;
    let (root, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let (kind, rest) = rest.split_first()?;
    Some(Parsed {
        root,
        kind: *kind,
        rest,
    })
}
