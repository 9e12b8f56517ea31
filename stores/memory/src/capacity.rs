//! How many rows there are, and may be.

use tidegate_store::core::Timestamp;
use tidegate_store::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use tidegate_store::{Hour, StoreError};

use crate::bounds::Bounds;

/// How many rows there are, and may be.
#[derive(Debug)]
pub(crate) struct Capacity {
    pub(crate) rows: AtomicUsize,
    max_keys: AtomicUsize,
    max_keys_per_root: AtomicUsize,
    /// How many records of usage there are, and may be.
    usage: AtomicUsize,
    max_usage: AtomicUsize,
    /// In which hour all shards were last looked through for records that are over: once in each.
    usage_swept: AtomicI64,
    /// No row can be dropped before the one instant, if the clock has not stepped
    /// back behind the other.
    full_until: AtomicI64,
    full_since: AtomicI64,
    /// How often an instant was found from which a row can be dropped earlier.
    pub(crate) lowered: AtomicUsize,
    /// The clock of those who ask never steps back.
    steady_clock: AtomicBool,
    /// Which shard is swept next: each sweep begins where the last one ended.
    pub(crate) hand: AtomicUsize,
}

impl Capacity {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            rows: AtomicUsize::new(0),
            max_keys: AtomicUsize::new(bounds.max_keys),
            max_keys_per_root: AtomicUsize::new(bounds.of_root()),
            usage: AtomicUsize::new(0),
            max_usage: AtomicUsize::new(bounds.of_usage()),
            usage_swept: AtomicI64::new(-1),
            full_until: AtomicI64::new(i64::MIN),
            full_since: AtomicI64::new(i64::MIN),
            lowered: AtomicUsize::new(0),
            steady_clock: AtomicBool::new(false),
            hand: AtomicUsize::new(0),
        }
    }

    /// Whether the clock of those who ask never steps back.
    #[inline]
    pub(crate) fn has_steady_clock(&self) -> bool {
        self.steady_clock.load(Ordering::Relaxed)
    }

    /// Any row may be spent sooner.
    pub(crate) fn reopen(&self) {
        self.spent_from(Timestamp::MIN);
    }

    /// A row is spent from this instant on.
    pub(crate) fn spent_from(&self, at: Timestamp) {
        // In this order: who has found no row to drop looks whether this was
        // raised, after it has said until when there is none.
        self.lowered.fetch_add(1, Ordering::SeqCst);
        self.full_until.fetch_min(at.as_micros(), Ordering::SeqCst);
    }

    /// Whether no row can be dropped at `now`.
    pub(crate) fn is_full_at(&self, now: Timestamp) -> bool {
        let now = now.as_micros();
        now < self.full_until.load(Ordering::Relaxed)
            && now >= self.full_since.load(Ordering::Relaxed)
    }

    /// At `now`, there was no row to drop before `next`; `lowered` as it was then.
    pub(crate) fn note_full(&self, now: Timestamp, next: Timestamp, lowered: usize) {
        self.full_since.store(now.as_micros(), Ordering::SeqCst);
        self.full_until.store(next.as_micros(), Ordering::SeqCst);
        if self.lowered.load(Ordering::SeqCst) != lowered {
            self.full_until.store(i64::MIN, Ordering::SeqCst);
        }
    }

    /// Whether the table is full.
    pub(crate) fn is_taken_up(&self) -> bool {
        self.rows.load(Ordering::Relaxed) >= self.max_keys.load(Ordering::Relaxed)
    }

    /// Takes room for `rows` more, beyond the bound if need be.
    pub(crate) fn reserve_anyway(&self, rows: usize) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Takes room for `rows` more.
    pub(crate) fn reserve(&self, rows: usize) -> Result<(), StoreError> {
        if rows == 0 {
            return Ok(());
        }
        let max_keys = self.max_keys.load(Ordering::Relaxed);
        if self.rows.fetch_add(rows, Ordering::Relaxed) + rows <= max_keys {
            return Ok(());
        }
        self.give_back(rows);
        Err(StoreError::KeysFull { max_keys })
    }

    /// Whether a root that has so many rows may have so many more.
    pub(crate) fn check_root(&self, has: usize, more: usize) -> Result<(), StoreError> {
        let max_keys_per_root = self.max_keys_per_root.load(Ordering::Relaxed);
        match more == 0 || has + more <= max_keys_per_root {
            true => Ok(()),
            false => Err(StoreError::RootKeysFull { max_keys_per_root }),
        }
    }

    pub(crate) fn give_back(&self, rows: usize) {
        self.rows.fetch_sub(rows, Ordering::Relaxed);
    }

    /// Whether there may be so many records of usage more.
    pub(crate) fn has_room_for_usage(&self, records: usize) -> bool {
        let max_usage = self.max_usage.load(Ordering::Relaxed);
        records == 0 || self.usage.load(Ordering::Relaxed) + records <= max_usage
    }

    /// Whether records that are over may be found in this hour: not again once they were looked for.
    pub(crate) fn may_find_usage(&self, hour: Hour) -> bool {
        self.usage_swept.load(Ordering::Relaxed) != i64::from(hour.number())
    }

    /// All shards were looked through in this hour.
    pub(crate) fn note_usage_swept(&self, hour: Hour) {
        self.usage_swept
            .store(i64::from(hour.number()), Ordering::Relaxed);
    }

    /// Why there is no room for another record of usage.
    pub(crate) fn usage_is_full(&self) -> StoreError {
        let max_usage = self.max_usage.load(Ordering::Relaxed);
        StoreError::UsageFull { max_usage }
    }

    /// Takes room for so many records of usage more.
    pub(crate) fn reserve_usage(&self, records: usize) {
        self.usage.fetch_add(records, Ordering::Relaxed);
    }

    pub(crate) fn give_usage_back(&self, records: usize) {
        self.usage.fetch_sub(records, Ordering::Relaxed);
    }

    /// From here on these are the bounds.
    pub(crate) fn bound(&self, bounds: Bounds) {
        self.max_keys.store(bounds.max_keys, Ordering::Relaxed);
        let per_root = &self.max_keys_per_root;
        per_root.store(bounds.of_root(), Ordering::Relaxed);
        self.max_usage.store(bounds.of_usage(), Ordering::Relaxed);
        self.reopen();
    }

    /// Whether the clock of those who ask never steps back from here on.
    pub(crate) fn set_steady_clock(&self, steady_clock: bool) {
        self.steady_clock.store(steady_clock, Ordering::Relaxed);
    }
}
