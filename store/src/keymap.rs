//! Something for each of many keys, cheap to share and to change.
//!
//! A version of the limits goes with every command, and may say something of a
//! hundred thousand keys. So a change copies one bucket of a thousandth of
//! them, and the two short lists that lead to it, and shares the rest; what
//! differs between two versions is found by looking only where they do not
//! share (Bagwell, "Ideal hash trees", 2001, with a fixed depth of two).

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::owned::OwnedKey;

/// How many branches a map that is not empty has, and each of them buckets.
const WIDTH: usize = 32;

type Bucket<V> = HashTable<(OwnedKey, V)>;
type Branch<V> = Arc<[Arc<Bucket<V>>]>;

/// A map from keys. Cloning shares it. See the [module](self).
#[derive(Clone)]
pub struct KeyMap<V> {
    /// `None` while there is nothing in it.
    branches: Option<Arc<[Branch<V>]>>,
    entries: usize,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self {
            branches: None,
            entries: 0,
        }
    }
}

impl<V: Clone> KeyMap<V> {
    /// How many keys there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries
    }

    /// Whether there is no key.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.branches.is_none()
    }

    /// What is said of `key`.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        let branches = self.branches.as_ref()?;
        let hash = hash(key);
        let (branch, bucket) = place(hash);
        let found = branches[branch][bucket].find(hash, |(known, _)| known.is(key));
        found.map(|(_, value)| value)
    }

    /// Every key with what is said of it, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&OwnedKey, &V)> {
        let branches = self.branches.iter().flat_map(|branches| branches.iter());
        let buckets = branches.flat_map(|branch| branch.iter());
        buckets.flat_map(|bucket| bucket.iter().map(|(key, value)| (key, value)))
    }

    /// The same, with `value` said of `key`, or nothing.
    #[must_use]
    pub fn with(&self, key: &[u8], value: Option<V>) -> Self {
        let mut changed = self.clone();
        changed.set(key, value);
        changed
    }

    fn set(&mut self, key: &[u8], value: Option<V>) {
        let hash = hash(key);
        let (branch, bucket) = place(hash);
        let branches = Arc::make_mut(self.branches.get_or_insert_with(vacant));
        let buckets = Arc::make_mut(&mut branches[branch]);
        let bucket = Arc::make_mut(&mut buckets[bucket]);
        if let Ok(found) = bucket.find_entry(hash, |(known, _)| known.is(key)) {
            found.remove();
            self.entries -= 1;
        }
        if let Some(value) = value {
            let rehash = |(key, _): &(OwnedKey, V)| self::hash(key.bytes());
            bucket.insert_unique(hash, (OwnedKey::new(key), value), rehash);
            self.entries += 1;
        }
        if self.entries == 0 {
            self.branches = None;
        }
    }

    /// The keys of which the two do not say the same.
    pub fn differing<'a>(
        &'a self,
        other: &'a Self,
        same: impl Fn(&V, &V) -> bool,
    ) -> Vec<&'a OwnedKey> {
        let mut keys = Vec::new();
        for branch in 0..WIDTH {
            let (ours, theirs) = (self.branch(branch), other.branch(branch));
            if same_place(ours, theirs) {
                continue;
            }
            for at in 0..WIDTH {
                let (ours, theirs) = (ours.map(|b| &b[at]), theirs.map(|b| &b[at]));
                if same_place(ours, theirs) {
                    continue;
                }
                let ours = ours.into_iter().flat_map(|bucket| bucket.iter());
                let as_theirs =
                    |key: &OwnedKey, v: &V| other.get(key.bytes()).is_some_and(|w| same(v, w));
                let changed = ours.filter(|(key, value)| !as_theirs(key, value));
                keys.extend(changed.map(|(key, _)| key));
                let theirs = theirs.into_iter().flat_map(|bucket| bucket.iter());
                let added = theirs.filter(|(key, _)| self.get(key.bytes()).is_none());
                keys.extend(added.map(|(key, _)| key));
            }
        }
        keys
    }

    fn branch(&self, at: usize) -> Option<&Branch<V>> {
        self.branches.as_ref().map(|branches| &branches[at])
    }

    /// Whether both share everything: then they say the same.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        same_place(self.branches.as_ref(), other.branches.as_ref())
    }
}

impl<V: Clone> FromIterator<(OwnedKey, V)> for KeyMap<V> {
    fn from_iter<I: IntoIterator<Item = (OwnedKey, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.set(key.bytes(), Some(value));
        }
        map
    }
}

impl<V: Clone + PartialEq> PartialEq for KeyMap<V> {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other)
            || (self.entries == other.entries && self.differing(other, V::eq).is_empty())
    }
}

impl<V> fmt::Debug for KeyMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyMap({} keys)", self.entries)
    }
}

fn hash(key: &[u8]) -> u64 {
    let mut state = FixedState::default().build_hasher();
    state.write(key);
    state.finish()
}

fn vacant<V>() -> Arc<[Branch<V>]> {
    let branch: Branch<V> = (0..WIDTH).map(|_| Arc::new(HashTable::new())).collect();
    (0..WIDTH).map(|_| Arc::clone(&branch)).collect()
}

fn same_place<T: ?Sized>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// The branch and the bucket go by bits that a bucket's own table does not use.
const fn place(hash: u64) -> (usize, usize) {
    let place = (hash >> 40) as usize;
    (place % WIDTH, place / WIDTH % WIDTH)
}
