//! Rows in one open-addressed array: most are found by a single look at memory.
//!
//! A row's home is its hash scaled to the array's length (Lemire, "Fast random
//! integer generation in an interval", 2019, section 3), and a row stands at
//! its home or at the next vacant place after it (linear probing; Knuth, TAOCP
//! 3, 6.4, algorithm L). Lengths need not be powers of two, so the array grows
//! by an eighth and stays between 7/10 and 8/10 full: the rows are most of the
//! table's size. Scaling keeps the order of hashes, so growing walks both
//! arrays from front to back.

use tidegate_store::OwnedKey;

/// After how many positions a scan may end.
const SCANNED: usize = 1_024;

/// One row: its key and what is remembered of it.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    pub(crate) key: OwnedKey,
    pub(crate) value: T,
}

impl<T: Default> Slot<T> {
    fn vacant() -> Self {
        Self {
            key: OwnedKey::VACANT,
            value: T::default(),
        }
    }

    #[inline]
    fn is_vacant(&self) -> bool {
        self.key.is_vacant()
    }
}

/// Rows by key. The caller hashes, so that one hash serves shard and array.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Box<[Slot<T>]>,
    rows: usize,
}

impl<T: Default> Slab<T> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Box::default(),
            rows: 0,
        }
    }

    /// How many positions there are, in use or not.
    pub(crate) fn positions(&self) -> usize {
        self.slots.len()
    }

    /// Where the row of `key` stands, until the next insertion or removal.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let slot = &self.slots[at];
            if slot.key.is(key) {
                return Some(at);
            }
            if slot.is_vacant() {
                return None;
            }
            at = self.after(at);
        }
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, at: usize) -> &mut T {
        &mut self.slots[at].value
    }

    /// The key and the value of the row at `at`.
    #[inline]
    pub(crate) fn row_mut(&mut self, at: usize) -> (&OwnedKey, &mut T) {
        let slot = &mut self.slots[at];
        (&slot.key, &mut slot.value)
    }

    /// The row at a position, if it is in use.
    pub(crate) fn slot(&self, at: usize) -> Option<&Slot<T>> {
        self.slots.get(at).filter(|slot| !slot.is_vacant())
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The keys of all rows in use.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let rows = self.slots.iter().filter(|slot| !slot.is_vacant());
        rows.map(|slot| slot.key.bytes())
    }

    /// The rows whose hashes are `from` and more, in the order of their hashes,
    /// with their positions; and the hash from which the next are, if any may be.
    /// About `rows` of them, or fewer: not many positions are looked at.
    ///
    /// Rows in use stand between two vacant places in the order of their homes,
    /// so what was looked at up to a vacant place are all rows whose homes lie
    /// before it. Hashes do not depend on the length: the next call may find
    /// another array.
    pub(crate) fn scan(
        &self,
        from: u64,
        rows: usize,
        hash: impl Fn(&[u8]) -> u64,
    ) -> (Vec<(u64, usize)>, Option<u64>) {
        let mut found = Vec::new();
        if self.slots.is_empty() {
            return (found, None);
        }
        let start = self.home(from);
        let mut at = start;
        while let Some(slot) = self.slots.get(at) {
            if slot.is_vacant() && (found.len() >= rows || at - start >= SCANNED) {
                found.sort_unstable();
                return (found, Some(self.first_hash(at)));
            }
            self.note(at, from, false, &hash, &mut found);
            at += 1;
        }
        // Those that found no place before the end.
        for at in 0..self.slots.len() {
            if self.slots[at].is_vacant() {
                break;
            }
            self.note(at, from, true, &hash, &mut found);
        }
        found.sort_unstable();
        (found, None)
    }

    /// Adds the row at `at` to what a scan has found, if there is one that
    /// belongs to it; `around` are those that stand before their homes.
    fn note(
        &self,
        at: usize,
        from: u64,
        around: bool,
        hash: impl Fn(&[u8]) -> u64,
        found: &mut Vec<(u64, usize)>,
    ) {
        if let Some(slot) = self.slot(at) {
            let hash = hash(slot.key.bytes());
            if hash >= from && (self.home(hash) > at) == around {
                found.push((hash, at));
            }
        }
    }

    /// The least hash whose home is `at` or after it.
    fn first_hash(&self, at: usize) -> u64 {
        let scaled = (at as u128) << 64;
        scaled.div_ceil(self.slots.len() as u128) as u64
    }

    /// Makes room for `more` rows; until they are added, no row moves.
    pub(crate) fn reserve(&mut self, more: usize, rehash: impl Fn(&[u8]) -> u64) {
        let rows = self.rows + more;
        if rows * 5 > self.slots.len() * 4 {
            let grown = self.slots.len() + self.slots.len() / 8;
            self.resize(grown.max(rows * 5 / 4 + 2), rehash);
        }
    }

    /// Adds a row whose key is not there. `rehash` hashes as the caller does.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        key: OwnedKey,
        value: T,
        rehash: impl Fn(&[u8]) -> u64,
    ) -> usize {
        self.reserve(1, rehash);
        self.rows += 1;
        self.put(hash, Slot { key, value })
    }

    /// Takes the row at `at` out; rows after it move up (Knuth, TAOCP 3, 6.4,
    /// algorithm R).
    pub(crate) fn remove(&mut self, at: usize, rehash: impl Fn(&[u8]) -> u64) -> Slot<T> {
        let removed = std::mem::replace(&mut self.slots[at], Slot::vacant());
        self.rows -= 1;
        let (mut hole, mut next) = (at, self.after(at));
        while !self.slots[next].is_vacant() {
            let home = self.home(rehash(self.slots[next].key.bytes()));
            if self.distance(home, next) >= self.distance(hole, next) {
                self.slots.swap(hole, next);
                hole = next;
            }
            next = self.after(next);
        }
        removed
    }

    /// All rows in use, out of the slab.
    pub(crate) fn into_rows(self) -> impl Iterator<Item = Slot<T>> {
        let slots = self.slots.into_iter();
        slots.filter(|slot| !slot.is_vacant())
    }

    fn resize(&mut self, length: usize, rehash: impl Fn(&[u8]) -> u64) {
        let larger = (0..length).map(|_| Slot::vacant()).collect();
        for slot in std::mem::replace(&mut self.slots, larger) {
            if !slot.is_vacant() {
                self.put(rehash(slot.key.bytes()), slot);
            }
        }
    }

    fn put(&mut self, hash: u64, slot: Slot<T>) -> usize {
        let mut at = self.home(hash);
        while !self.slots[at].is_vacant() {
            at = self.after(at);
        }
        self.slots[at] = slot;
        at
    }

    /// The high half of the product: hashes in order, scaled to the length.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() {
            0
        } else {
            at + 1
        }
    }

    /// How far it is from `from` on to `to`, around the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from {
            to - from
        } else {
            to + self.slots.len() - from
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::hash::BuildHasher;

    /// A hash so poor that homes collide and clusters wrap around the end.
    fn poor(key: &[u8]) -> u64 {
        let spread = key.first().map_or(0, |byte| u64::from(byte % 8));
        u64::MAX / 8 * spread + u64::MAX / 16
    }

    /// Every key that a scan of some rows at a time finds, and what is done
    /// between two of them.
    fn scanned(
        slab: &mut Slab<u64>,
        rows: usize,
        between: impl Fn(&mut Slab<u64>),
    ) -> Vec<Vec<u8>> {
        let (mut keys, mut from) = (Vec::new(), 0);
        loop {
            let (found, next) = slab.scan(from, rows, good);
            let found = found.into_iter().filter_map(|(_, at)| slab.slot(at));
            keys.extend(found.map(|slot| slot.key.bytes().to_vec()));
            match next {
                Some(next) => from = next,
                None => return keys,
            }
            between(slab);
        }
    }

    fn good(key: &[u8]) -> u64 {
        foldhash::fast::FixedState::with_seed(7).hash_one(key)
    }

    #[test]
    fn a_scan_finds_every_row_once_while_the_array_grows() {
        let mut slab = Slab::<u64>::new();
        let put = |slab: &mut Slab<u64>, key: &[u8]| {
            slab.insert(good(key), OwnedKey::new(key), 0, good);
        };
        for number in 0..5_000_u32 {
            put(&mut slab, &number.to_be_bytes());
        }
        let added = std::cell::Cell::new(0_u64);
        let keys = scanned(&mut slab, 10, |slab| {
            for _ in 0..40 {
                put(slab, &added.replace(added.get() + 1).to_be_bytes());
            }
        });
        let mut first: Vec<_> = keys.iter().filter(|key| key.len() == 4).collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 5_000);
        let all = keys.len();
        let distinct: std::collections::HashSet<_> = keys.into_iter().collect();
        assert_eq!(distinct.len(), all, "none comes twice");
    }

    proptest! {
        #[test]
        fn a_slab_holds_what_a_map_holds(steps in prop::collection::vec((any::<u8>(), any::<bool>()), 1..400)) {
            let mut slab = Slab::<u64>::new();
            let mut model = HashMap::new();
            for (step, (byte, add)) in steps.into_iter().enumerate() {
                let key = [byte, 7];
                match (slab.find(poor(&key), &key), add) {
                    (None, true) => {
                        slab.insert(poor(&key), OwnedKey::new(&key), step as u64, poor);
                        model.insert(key, step as u64);
                    }
                    (Some(at), false) => {
                        prop_assert_eq!(Some(slab.remove(at, poor).value), model.remove(&key));
                    }
                    (found, _) => prop_assert_eq!(found.is_some(), model.contains_key(&key)),
                }
                for (key, value) in &model {
                    let at = slab.find(poor(key), key);
                    prop_assert_eq!(at.map(|at| *slab.value_mut(at)), Some(*value));
                }
            }
            let (found, next) = slab.scan(0, usize::MAX, poor);
            prop_assert!(next.is_none());
            prop_assert_eq!(found.len(), model.len());
            prop_assert_eq!(slab.into_rows().count(), model.len());
        }
    }
}
