//! Keys that a thread asks for again and again decide as handles do.
//!
//! A small cache for each thread: the cell of a key that was asked for
//! [`PATIENCE`] times with nothing else in its place in between. What it holds
//! is the table's own state, so that nothing can be stale: a cell that the
//! table has taken back says so, and the ask goes to the table.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, OnceLock, Weak};

use foldhash::fast::RandomState;
use tidegate_contract::{HotCell, OwnedKey, Table};
use tidegate_core::{Amount, Timestamp, Verdict};

use super::inner::Inner;

/// How many keys a thread holds at most (one where every schedule is explored:
/// the more they meet, and the stacks are small).
const PLACES: usize = if cfg!(shuttle) { 1 } else { 64 };
/// How many times in a row a key must be asked for before it is held.
const PATIENCE: u32 = 4;

/// Where keys with one remainder of the hash meet.
struct Place {
    held: Option<Held>,
    /// The latest key that was not held, and how often in a row.
    candidate: u64,
    times: u32,
}

/// A key's cell, borrowed from its table.
struct Held {
    set: u64,
    key: OwnedKey,
    cell: Option<Arc<HotCell>>,
    table: Weak<dyn Table>,
}

type Places = RefCell<[Place; PLACES]>;

#[cfg(not(shuttle))]
thread_local! {
    static RECENT: Places = const { RefCell::new([const { Place::EMPTY }; PLACES]) };
}
#[cfg(shuttle)]
shuttle::thread_local! {
    static RECENT: Places = RefCell::new([const { Place::EMPTY }; PLACES]);
}

/// The verdict, if this thread holds the cell of `key`.
#[inline]
pub(super) fn admit(set: &Inner, key: &[u8], cost: Amount, now: Timestamp) -> Option<Verdict> {
    let hash = hash(set.id, key);
    let ask = |places: &Places| {
        let place = &mut places.borrow_mut()[hash as usize % PLACES];
        match &place.held {
            Some(held) if held.is(set, key) => {
                place.times = 0;
                let verdict = held.admit(cost, now);
                if verdict.is_none() {
                    place.drop_retired();
                }
                verdict
            }
            _ => place.miss(set, hash, key, now),
        }
    };
    // A thread that is ending has dropped its cache already.
    RECENT.try_with(ask).ok().flatten()
}

impl Place {
    const EMPTY: Self = Self {
        held: None,
        candidate: 0,
        times: 0,
    };

    /// The table has taken the cell back, for good or for a moment.
    #[cold]
    fn drop_retired(&mut self) {
        let cell = self.held.as_ref().and_then(|held| held.cell.as_ref());
        if cell.is_some_and(|cell| cell.is_retired()) {
            self.held = None;
        }
    }

    #[inline]
    fn miss(&mut self, set: &Inner, hash: u64, key: &[u8], now: Timestamp) -> Option<Verdict> {
        if self.candidate != hash {
            self.candidate = hash;
            self.times = 0;
        }
        self.times += 1;
        if self.times >= PATIENCE {
            self.hold(set, key, now);
        }
        None
    }

    #[cold]
    fn hold(&mut self, set: &Inner, key: &[u8], now: Timestamp) {
        self.times = 0;
        // The earlier cell goes back first.
        self.held = None;
        let cell = set.table.pin(&set.view.load().plan, key, now);
        self.held = cell.map(|cell| Held {
            set: set.id,
            key: OwnedKey::new(key),
            cell: Some(cell),
            table: Arc::downgrade(&set.table),
        });
    }
}

impl Held {
    #[inline]
    fn is(&self, set: &Inner, key: &[u8]) -> bool {
        self.set == set.id && self.key.is(key)
    }

    #[inline]
    fn admit(&self, cost: Amount, now: Timestamp) -> Option<Verdict> {
        match self.cell.as_ref()?.admit(cost, now).ok()? {
            // The table's way says it in full.
            Verdict::Never => None,
            verdict => Some(verdict),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let (Some(table), Some(cell)) = (self.table.upgrade(), self.cell.take()) {
            table.unpin(self.key.bytes(), cell);
        }
    }
}

#[inline]
fn hash(set: u64, key: &[u8]) -> u64 {
    static SEED: OnceLock<RandomState> = OnceLock::new();
    let mut state = SEED.get_or_init(RandomState::default).build_hasher();
    state.write(key);
    state.finish() ^ set
}
