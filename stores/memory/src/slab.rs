//! Rows in a dense array, found by hash through an index of 32-bit positions.
//!
//! The index is what a hash table must keep sparse; with four bytes an entry
//! its empty places cost little, and the rows themselves stay packed.

use hashbrown::HashTable;

use tidegate_contract::OwnedKey;

/// One row: its key and what is remembered of it.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    pub(crate) key: OwnedKey,
    pub(crate) value: T,
}

/// Rows by key. The caller hashes, so that one hash serves shard and index.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    index: HashTable<u32>,
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
}

impl<T: Default> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self {
            index: HashTable::new(),
            slots: Vec::new(),
            vacant: Vec::new(),
        }
    }

    /// How many positions there are, in use or not.
    pub(crate) fn positions(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let same = |&at: &u32| self.slots[at as usize].key.bytes() == key;
        self.index.find(hash, same).copied()
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, at: u32) -> &mut T {
        &mut self.slots[at as usize].value
    }

    /// The row at a position, if it is in use.
    pub(crate) fn slot(&self, at: u32) -> Option<&Slot<T>> {
        let slot = self.slots.get(at as usize)?;
        (slot.key != OwnedKey::VACANT).then_some(slot)
    }

    /// Adds a row whose key is not there. `rehash` hashes as the caller does.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        key: OwnedKey,
        value: T,
        rehash: impl Fn(&[u8]) -> u64,
    ) -> u32 {
        let slot = Slot { key, value };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => self.append(slot),
        };
        let slots = &self.slots;
        let hasher = |&at: &u32| rehash(slots[at as usize].key.bytes());
        self.index.insert_unique(hash, at, hasher);
        at
    }

    /// Takes the row at `at` out.
    pub(crate) fn remove(&mut self, hash: u64, at: u32) -> Option<Slot<T>> {
        // Not `entry`, which makes room for one more and would hash every row anew.
        let entry = self.index.find_entry(hash, |&other| other == at).ok()?;
        entry.remove();
        self.vacant.push(at);
        let emptied = Slot {
            key: OwnedKey::VACANT,
            value: T::default(),
        };
        Some(std::mem::replace(&mut self.slots[at as usize], emptied))
    }

    /// All rows in use, with their positions, out of the slab.
    pub(crate) fn into_positions(self) -> impl Iterator<Item = (u32, Slot<T>)> {
        let slots = self.slots.into_iter().enumerate();
        slots
            .filter(|(_, slot)| slot.key != OwnedKey::VACANT)
            .map(|(at, slot)| (at as u32, slot))
    }

    /// Grows by an eighth, not twofold: the array is most of the table's size.
    fn append(&mut self, slot: Slot<T>) -> u32 {
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(self.slots.len() / 8 + 4);
        }
        self.slots.push(slot);
        (self.slots.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;
    use tidegate_contract::OwnedKey;

    /// Any spread of hashes.
    fn hash(key: &[u8]) -> u64 {
        let step = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        key.iter().fold(0xcbf2_9ce4_8422_2325, step)
    }

    /// Whatever room the index has left: a removal used to hash all the others
    /// to the place of the one removed whenever there was none, and lost them.
    #[test]
    fn every_other_row_is_still_found_after_one_was_removed() {
        for rows in 1_u32..=256 {
            let mut slab = Slab::new();
            let keys: Vec<Vec<u8>> = (0..rows).map(|row| row.to_le_bytes().to_vec()).collect();
            for (row, key) in (0..).zip(&keys) {
                slab.insert(hash(key), OwnedKey::new(key), row, hash);
            }
            let first = slab.remove(hash(&keys[0]), 0).map(|slot| slot.value);
            assert_eq!(first, Some(0));
            for (row, key) in (1..).zip(&keys[1..]) {
                assert_eq!(slab.find(hash(key), key), Some(row), "of {rows}");
            }
        }
    }
}
