//! The leases of some rows: found by id, retired in order of time.
//!
//! A record outlives its lease for as long as the plan's `keep` says, so that
//! a retried end gets the first answer and a late settle can still charge the
//! real use.

use std::collections::VecDeque;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use smallvec::SmallVec;
use tidegate_core::{Amount, Place, Timestamp};

use crate::error::StoreError;
use crate::reply::{Granted, Settlement};

/// One limit's share of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The limit's `uid`.
    pub uid: u32,
    /// How much was taken.
    pub amount: Amount,
    /// Where it was booked.
    pub place: Place,
}

/// How far a lease has come.
#[derive(Clone, PartialEq, Debug)]
pub enum Stage {
    /// Held.
    Live,
    /// Past its expiry; what the limits give back then has been given back.
    Expired,
    /// Ended, with the answer to repeat.
    Ended(Settlement),
}

/// A lease as its store remembers it. `O` tells the store whose it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Record<O> {
    /// Whose lease it is.
    pub owner: O,
    /// What was taken.
    pub shares: SmallVec<[Share; 3]>,
    /// What was granted.
    pub granted: Granted,
    /// How far it has come.
    pub stage: Stage,
    /// When something is to be done about it next.
    due_at: Timestamp,
    /// The idempotency key it was made under.
    idempotency: Option<Box<[u8]>>,
}

impl<O> Record<O> {
    /// A live lease.
    pub fn new(owner: O, shares: SmallVec<[Share; 3]>, granted: Granted) -> Self {
        Self {
            owner,
            shares,
            granted,
            stage: Stage::Live,
            due_at: granted.expires_at,
            idempotency: None,
        }
    }
}

/// The records of some rows. See the [module](self).
#[derive(Debug)]
pub struct Book<O> {
    records: HashMap<u128, Record<O>, foldhash::fast::RandomState>,
    asks: HashMap<Box<[u8]>, u128, foldhash::fast::RandomState>,
    /// When to look at which record, in order; an entry whose record has moved
    /// on is passed over.
    due: VecDeque<(Timestamp, u128)>,
    max_leases: usize,
}

impl<O: PartialEq> Book<O> {
    /// An empty book for at most `max_leases` records.
    #[must_use]
    pub fn new(max_leases: usize) -> Self {
        Self {
            records: HashMap::default(),
            asks: HashMap::default(),
            due: VecDeque::new(),
            max_leases,
        }
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Checks that a record with `id` could be added.
    ///
    /// # Errors
    /// [`StoreError::LeasesFull`], [`StoreError::DuplicateLease`].
    pub fn check_room(&self, id: u128) -> Result<(), StoreError> {
        if self.records.len() >= self.max_leases {
            return Err(StoreError::LeasesFull {
                max_leases: self.max_leases,
            });
        }
        if self.records.contains_key(&id) {
            return Err(StoreError::DuplicateLease);
        }
        Ok(())
    }

    /// Adds a record, under an idempotency key if the ask had one.
    pub fn insert(&mut self, mut record: Record<O>, ask: Option<Box<[u8]>>) {
        let id = record.granted.id;
        if let Some(ask) = ask {
            self.asks.insert(ask.clone(), id);
            record.idempotency = Some(ask);
        }
        self.schedule(record.due_at, id);
        self.records.insert(id, record);
    }

    /// The lease that was made under an idempotency key, while it is live.
    #[must_use]
    pub fn find_ask(&self, ask: &[u8]) -> Option<&Record<O>> {
        let record = self.records.get(self.asks.get(ask)?)?;
        matches!(record.stage, Stage::Live).then_some(record)
    }

    /// The lease `id` of `owner`.
    ///
    /// # Errors
    /// [`StoreError::UnknownLease`] if there is none, or it is another's.
    pub fn find(&mut self, id: u128, owner: &O) -> Result<&mut Record<O>, StoreError> {
        let record = self.records.get_mut(&id);
        record
            .filter(|record| record.owner == *owner)
            .ok_or(StoreError::UnknownLease)
    }

    /// Takes the lease `id` of `owner` out.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn remove(&mut self, id: u128, owner: &O) -> Result<Record<O>, StoreError> {
        let Entry::Occupied(entry) = self.records.entry(id) else {
            return Err(StoreError::UnknownLease);
        };
        if entry.get().owner != *owner {
            return Err(StoreError::UnknownLease);
        }
        let record = entry.remove();
        self.forget_ask(&record);
        self.compact();
        Ok(record)
    }

    /// Puts a record back that was taken out, to be looked at again `due_at`.
    pub fn put_back(&mut self, mut record: Record<O>, due_at: Timestamp) {
        let id = record.granted.id;
        if let Some(ask) = &record.idempotency {
            self.asks.insert(ask.clone(), id);
        }
        record.due_at = due_at;
        self.schedule(due_at, id);
        self.records.insert(id, record);
    }

    /// Takes out the next record that is due at `now`, if any.
    pub fn take_due(&mut self, now: Timestamp) -> Option<Record<O>> {
        while self.due.front().is_some_and(|&(at, _)| at <= now) {
            let (at, id) = self.due.pop_front()?;
            let Entry::Occupied(entry) = self.records.entry(id) else {
                continue;
            };
            if entry.get().due_at == at {
                let record = entry.remove();
                self.forget_ask(&record);
                return Some(record);
            }
        }
        None
    }

    /// When the next record is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.front().map(|&(at, _)| at)
    }

    fn forget_ask(&mut self, record: &Record<O>) {
        if let Some(ask) = &record.idempotency {
            self.asks.remove(ask);
        }
    }

    /// The latest goes to the back, where almost every entry belongs.
    fn schedule(&mut self, at: Timestamp, id: u128) {
        let position = match self.due.back() {
            Some(&(last, _)) if last > at => self.due.partition_point(|&(due, _)| due <= at),
            _ => self.due.len(),
        };
        self.due.insert(position, (at, id));
    }

    /// Drops entries whose records are gone, once they are most of the queue.
    fn compact(&mut self) {
        if self.due.len() > 2 * self.records.len() + 64 {
            let records = &self.records;
            self.due
                .retain(|(at, id)| records.get(id).is_some_and(|r| r.due_at == *at));
        }
    }
}
