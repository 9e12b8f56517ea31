//! What a backend loads and writes. Keys are those of rows: a root, or a key below
//! it; how they are named where they are kept is the backend's business.

use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::usage::{Hour, UsageSum};

/// What is to be loaded, all of one root.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoadRequest {
    /// The rows of these keys. The first load of an attempt begins with the root,
    /// which a backend that locks locks before it reads anything else.
    pub rows: Vec<Box<[u8]>>,
    /// The leases of these ids.
    pub ids: Vec<u128>,
    /// The lease that was made under this idempotency key.
    pub idempotency_key: Option<Box<[u8]>>,
    /// The leases that are due first.
    pub due: Option<DueRange>,
    /// All leases of the root.
    pub all_leases: bool,
}

/// The next leases in the order in which they are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DueRange {
    /// After this position, if not from the beginning.
    pub after: Option<(Timestamp, u64)>,
    /// So many at most.
    pub most: usize,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoadReply {
    /// The backend's clock, in microseconds since 1970: read after the root was
    /// locked, if it is.
    pub now: Timestamp,
    /// The root's version, for a backend that has one; of the first load alone.
    pub version: Option<u64>,
    /// The rows in the order in which they were wanted.
    pub rows: Vec<Option<Vec<u8>>>,
    /// The leases wanted by id, by idempotency key or altogether, in any order;
    /// the same may be there twice.
    pub leases: Vec<StoredLease>,
    /// Those that are due first, in their order.
    pub due: Vec<StoredLease>,
}

/// A lease as it was kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredLease {
    /// Its position among those that are due at the same instant.
    pub sequence: u64,
    /// Its record.
    pub bytes: Vec<u8>,
}

/// What is to be written: all of it or nothing, and nothing if the root's row is
/// not as it was loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteSet {
    /// The root's key.
    pub root: Box<[u8]>,
    /// Whether the root's row was there.
    pub root_was_there: bool,
    /// The version it had, for a backend that has one.
    pub version: Option<u64>,
    /// What becomes of rows. The root's is always among them, is the first, and
    /// is never deleted.
    pub rows: Vec<RowWrite>,
    /// What becomes of leases.
    pub leases: Vec<LeaseWrite>,
    /// What more, or less, was used: each record once, those of one hour of a row together.
    pub usage: Vec<UsageWrite>,
    /// Whether the root may have any lease afterwards: a backend that notes it
    /// beside the root's row need not look for leases where there are none.
    pub may_have_leases: bool,
}

/// A row as a backend keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptRow<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The [`forget_at`](RowWrite::forget_at) that it was written with.
    pub forget_at: Timestamp,
}

/// What becomes of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowWrite {
    /// Its key.
    pub key: Box<[u8]>,
    /// Its bytes; `None`: it is deleted.
    pub bytes: Option<Vec<u8>>,
    /// From when on its states equal "never seen"; `Timestamp::MIN` if nothing
    /// is noted in it.
    pub forget_at: Timestamp,
    /// From when on it may be deleted: nothing below it is needed any more.
    pub keep_until: Timestamp,
}

/// What is to be added to a record of usage, which may not be there, or taken from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageWrite {
    /// The row's key.
    pub key: Box<[u8]>,
    /// The limit's name.
    pub limit: Arc<str>,
    /// The hour.
    pub hour: Hour,
    /// How much [less and then more](UsageSum::applied_to).
    pub sum: UsageSum,
    /// From when on the record is over, and listed no more.
    pub over_at: Timestamp,
    /// From when on it may be deleted.
    pub keep_until: Timestamp,
}

/// What becomes of a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseWrite {
    /// Its id.
    pub id: u128,
    /// What is kept of it; `None`: it is deleted.
    pub kept: Option<LeaseRow>,
}

/// What is kept of a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRow {
    /// Whose it is.
    pub owner: Box<[u8]>,
    /// When it is to be looked at.
    pub due: Timestamp,
    /// Its position among those that are due at the same instant.
    pub sequence: u64,
    /// The idempotency key it was made under.
    pub idempotency_key: Option<Box<[u8]>>,
    /// Whether it is held: it has neither ended nor been found expired.
    pub is_live: bool,
    /// Its record.
    pub bytes: Vec<u8>,
}
