//! Rows in one open-addressed array: most are found by a single look at memory.
//!
//! A row's home is its hash scaled to the array's length (Lemire, "Fast random
//! integer generation in an interval", 2019, section 3), and a row stands at
//! its home or at the next vacant place after it (linear probing; Knuth, TAOCP
//! 3, 6.4, algorithm L). Lengths need not be powers of two, so the array grows
//! by an eighth and stays between 7/10 and 8/10 full: the rows are most of the
//! table's size. Scaling keeps the order of hashes, so growing walks both
//! arrays from front to back.

use tidegate_contract::OwnedKey;

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
        self.place(hash, Slot { key, value })
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
                self.place(rehash(slot.key.bytes()), slot);
            }
        }
    }

    fn place(&mut self, hash: u64, slot: Slot<T>) -> usize {
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

    /// A hash so poor that homes collide and clusters wrap around the end.
    fn poor(key: &[u8]) -> u64 {
        let spread = key.first().map_or(0, |byte| u64::from(byte % 8));
        u64::MAX / 8 * spread + u64::MAX / 16
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
            prop_assert_eq!(slab.into_rows().count(), model.len());
        }
    }
}
