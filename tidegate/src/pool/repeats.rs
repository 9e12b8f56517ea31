//! Which member granted which idempotent request.
//!
//! A set gives the same lease to the same ask for as long as it is held; a pool must
//! send the request to the same set for that. It remembers where until the lease ends; at
//! most [`MOST`] of them, the soonest to expire giving way. Two that ask the same at the same moment may be granted by two
//! members: the first to claim keeps, and the other's is cancelled.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_core::Timestamp;
use tidegate_store::sync::Mutex;

/// How many requests are remembered.
const MOST: usize = 65_536;

/// A key and an idempotency key.
type Name = Box<[u8]>;
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

#[derive(Debug, Default)]
pub(super) struct Repeats {
    book: Mutex<Book>,
    /// How many there are: while none is, nobody needs the lock.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Book {
    by_name: Map<Name, Entry>,
    by_lease: Map<u128, Name>,
    by_end: BTreeSet<(Timestamp, u128)>,
}

/// Where a request was granted, by its member's clock.
#[derive(Clone, Copy, Debug)]
struct Entry {
    member: u64,
    lease: u128,
    until: Timestamp,
}

/// Tells `key` and `idempotency` apart by a length.
pub(super) fn name(key: &[u8], idempotency: &[u8]) -> Name {
    let length = (key.len() as u64).to_le_bytes();
    [length.as_slice(), key, idempotency].concat().into()
}

impl Repeats {
    /// The member that granted `name`, and the lease, if that still lasts by `now`, that
    /// member's time; there is none for a member that is gone.
    pub(super) fn find(
        &self,
        name: &[u8],
        now: impl FnOnce(u64) -> Option<Timestamp>,
    ) -> Option<(u64, u128)> {
        if self.is_empty() {
            return None;
        }
        let entry = *self.book.lock().by_name.get(name)?;
        if now(entry.member).is_some_and(|now| entry.until > now) {
            return Some((entry.member, entry.lease));
        }
        self.forget(entry.lease);
        None
    }

    /// `member` has granted `name`. Whether that stands: not if another member
    /// did before.
    pub(super) fn claim(
        &self,
        name: &[u8],
        (member, lease): (u64, u128),
        until: Timestamp,
    ) -> bool {
        let mut book = self.book.lock();
        if book.by_name.get(name).is_some_and(|e| e.member != member) {
            return false;
        }
        book.forget_name(name);
        if book.by_name.len() >= MOST {
            book.forget_soonest();
        }
        book.insert(
            name,
            Entry {
                member,
                lease,
                until,
            },
        );
        self.count.store(book.by_name.len(), Ordering::SeqCst);
        true
    }

    /// The lease is held no more: its request is a new one from now on.
    pub(super) fn forget(&self, lease: u128) {
        if self.is_empty() {
            return;
        }
        let mut book = self.book.lock();
        book.forget(lease);
        self.count.store(book.by_name.len(), Ordering::SeqCst);
    }

    /// The lease lasts until `until`.
    pub(super) fn renew(&self, lease: u128, until: Timestamp) {
        if self.is_empty() {
            return;
        }
        let mut book = self.book.lock();
        if let Some((name, entry)) = book.forget(lease) {
            book.insert(&name, Entry { until, ..entry });
        }
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}

impl Book {
    fn insert(&mut self, name: &[u8], entry: Entry) {
        self.by_name.insert(name.into(), entry);
        self.by_lease.insert(entry.lease, name.into());
        self.by_end.insert((entry.until, entry.lease));
    }

    fn forget(&mut self, lease: u128) -> Option<(Name, Entry)> {
        let name = self.by_lease.remove(&lease)?;
        let entry = self.by_name.remove(&name)?;
        self.by_end.remove(&(entry.until, lease));
        Some((name, entry))
    }

    fn forget_name(&mut self, name: &[u8]) {
        if let Some(entry) = self.by_name.get(name) {
            self.forget(entry.lease);
        }
    }

    fn forget_soonest(&mut self) {
        if let Some(&(_, lease)) = self.by_end.first() {
            self.forget(lease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_soonest_to_expire_gives_way() {
        let repeats = Repeats::default();
        for lease in 0..=MOST as u64 {
            let request = name(b"k", &lease.to_le_bytes());
            let until = at(1_000_000 - lease as i64);
            assert!(repeats.claim(&request, (0, u128::from(lease)), until));
        }
        let book = repeats.book.lock();
        assert_eq!(book.by_name.len(), MOST);
        assert_eq!((book.by_lease.len(), book.by_end.len()), (MOST, MOST));
        let gone = name(b"k", &(MOST as u64 - 1).to_le_bytes());
        assert!(!book.by_name.contains_key(&gone));
    }

    #[test]
    fn an_entry_is_forgotten_at_its_expiry_and_with_its_lease() {
        let repeats = Repeats::default();
        assert!(repeats.claim(b"a", (1, 7), at(10)));
        assert_eq!(repeats.find(b"a", |_| Some(at(9))), Some((1, 7)));
        repeats.renew(7, at(20));
        assert_eq!(repeats.find(b"a", |_| Some(at(19))), Some((1, 7)));
        assert_eq!(repeats.find(b"a", |_| Some(at(20))), None);
        assert!(repeats.claim(b"a", (0, 8), at(30)));
        repeats.forget(8);
        assert!(repeats.is_empty());
    }

    #[test]
    fn the_first_to_claim_keeps() {
        let repeats = Repeats::default();
        assert!(repeats.claim(b"a", (1, 7), at(10)));
        assert!(!repeats.claim(b"a", (0, 8), at(10)));
        assert!(repeats.claim(b"a", (1, 9), at(10)));
        assert_eq!(repeats.book.lock().by_end.len(), 1);
    }
}
