//! The leases of some rows: found by id, retired in order of time.
//!
//! A record outlives its lease for as long as the plan's `keep` says, so that
//! a retried end gets the first answer and a late settle can still charge the
//! real use.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};
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
    /// The key was reset since: there is nothing left to give back.
    pub forgotten: bool,
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

    /// When something is to be done about it next.
    #[must_use]
    pub const fn due_at(&self) -> Timestamp {
        self.due_at
    }

    /// The idempotency key it was made under, as [`Book`] knows it.
    #[must_use]
    pub fn idempotency(&self) -> Option<&[u8]> {
        self.idempotency.as_deref()
    }

    /// The idempotency key that finds the lease, which is held.
    #[must_use]
    pub fn held_under(&self) -> Option<&[u8]> {
        self.idempotency().filter(|_| self.is_live())
    }

    /// The record with something to do about it at this instant next.
    #[must_use]
    pub fn due(mut self, at: Timestamp) -> Self {
        self.due_at = at;
        self
    }

    /// The record that was made under this idempotency key.
    #[must_use]
    pub fn under(mut self, idempotency: Option<Box<[u8]>>) -> Self {
        self.idempotency = idempotency;
        self
    }

    /// Whether it has neither ended nor been found expired.
    const fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Live)
    }

    /// Whether it was made under an idempotency key: then two may hold it, the first
    /// delivery of the ask and its retry, and each may end it.
    pub(crate) const fn has_idempotency(&self) -> bool {
        self.idempotency.is_some()
    }
}

/// How many records a store's books hold, all together.
#[derive(Debug)]
pub struct LeaseRoom {
    held: AtomicUsize,
    max_leases: usize,
}

impl LeaseRoom {
    /// Room for `max_leases` records.
    #[must_use]
    pub const fn new(max_leases: usize) -> Self {
        Self {
            held: AtomicUsize::new(0),
            max_leases,
        }
    }

    fn is_full(&self) -> bool {
        self.held.load(Ordering::Relaxed) >= self.max_leases
    }
}

/// A place in the order of expiry, and among those that expire together.
pub type Turn = (Timestamp, u64);

/// How many entries are looked at for one page, about.
const LOOKED_AT: usize = 1_024;

/// The records of some rows. See the [module](self).
#[derive(Debug)]
pub struct Book<O> {
    records: HashMap<u128, Record<O>, foldhash::fast::RandomState>,
    /// The leases that are held, by the idempotency key of their ask.
    asks: HashMap<Box<[u8]>, u128, foldhash::fast::RandomState>,
    /// When to look at which record, in order; an entry whose record has moved
    /// on is passed over.
    due: VecDeque<(Timestamp, u128)>,
    room: Arc<LeaseRoom>,
    /// How many records are of live leases.
    live: usize,
    /// Whose records have changed, if a journal wants to know.
    changed: Option<HashSet<u128, foldhash::fast::RandomState>>,
}

impl<O: PartialEq> Book<O> {
    /// An empty book that takes its part of `room`.
    #[must_use]
    pub fn new(room: Arc<LeaseRoom>) -> Self {
        Self {
            records: HashMap::default(),
            asks: HashMap::default(),
            due: VecDeque::new(),
            room,
            live: 0,
            changed: None,
        }
    }

    /// From here on, changes are noted for [`take_changed`](Self::take_changed).
    pub fn note_changes(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// The ids of the records that were added, changed or removed since the
    /// last time.
    pub fn take_changed(&mut self) -> impl IntoIterator<Item = u128> + use<O> {
        self.changed
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Notes a record as changed.
    pub fn note(&mut self, id: u128) {
        if let Some(changed) = &mut self.changed {
            changed.insert(id);
        }
    }

    /// The record of the lease `id`, whoever's it is.
    #[must_use]
    pub fn get(&self, id: u128) -> Option<&Record<O>> {
        self.records.get(&id)
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
        if self.room.is_full() {
            return Err(StoreError::LeasesFull {
                max_leases: self.room.max_leases,
            });
        }
        if self.records.contains_key(&id) {
            return Err(StoreError::DuplicateLease);
        }
        Ok(())
    }

    /// Adds a record, under an idempotency key if the ask had one.
    pub fn insert(&mut self, mut record: Record<O>, ask: Option<Box<[u8]>>) {
        record.idempotency = ask;
        self.keep(record);
    }

    /// The lease that was made under an idempotency key, unless it has ended or was
    /// found expired.
    #[must_use]
    pub fn find_ask(&self, ask: &[u8]) -> Option<&Record<O>> {
        self.records.get(self.asks.get(ask)?)
    }

    /// Notes that the shares that `which` picks, of leases whose owner
    /// `concerns`, have nothing left to give back.
    pub fn forget_charges(
        &mut self,
        concerns: impl Fn(&O) -> bool,
        which: impl Fn(&Share) -> bool,
    ) {
        let records = self.records.values_mut();
        for record in records.filter(|record| concerns(&record.owner)) {
            let shares = record.shares.iter_mut().filter(|share| which(share));
            shares.for_each(|share| share.forgotten = true);
            if let Some(changed) = &mut self.changed {
                changed.insert(record.granted.id);
            }
        }
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
        self.let_go(&record);
        self.compact();
        self.trim();
        Ok(record)
    }

    /// Puts a record back that was taken out, to be looked at again `due_at`.
    pub fn put_back(&mut self, mut record: Record<O>, due_at: Timestamp) {
        record.due_at = due_at;
        self.keep(record);
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
                self.let_go(&record);
                self.trim();
                return Some(record);
            }
        }
        None
    }

    /// How many leases are held at `now`.
    #[must_use]
    pub fn held(&self, now: Timestamp) -> usize {
        let late = self.due.iter().take_while(|(at, _)| *at <= now);
        let late = late.filter(|entry| self.live_at(entry).is_some());
        // One that was renewed to the same instant is there twice.
        let late: HashSet<u128, foldhash::fast::RandomState> = late.map(|(_, id)| *id).collect();
        self.live - late.len()
    }

    /// The next live leases after a place in the order of expiry, and the place
    /// of the last, if there may be more. Not many are looked at.
    ///
    /// Leases that expire at the same instant are in the order of `rank`, which
    /// tells them apart: it stands for their ids, which are secrets.
    pub fn held_after(
        &self,
        (after, last): Turn,
        most: usize,
        rank: impl Fn(u128) -> u64,
    ) -> (Vec<&Record<O>>, Option<Turn>) {
        let mut found = Vec::new();
        let mut told = (after, last);
        let start = self.due.partition_point(|(at, _)| *at < after);
        let mut from = start;
        while let Some(&(at, _)) = self.due.get(from) {
            let end = self.due.partition_point(|(other, _)| *other <= at);
            let alike = self.due.range(from..end);
            let live = alike.filter_map(|entry| Some((rank(entry.1), self.live_at(entry)?)));
            let mut live: Vec<_> = live
                .filter(|(rank, _)| at > after || *rank > last)
                .collect();
            live.sort_unstable_by_key(|(rank, _)| *rank);
            live.dedup_by_key(|(rank, _)| *rank);
            for (rank, record) in live {
                if found.len() == most {
                    return (found, Some(told));
                }
                found.push(record);
                told = (at, rank);
            }
            from = end;
            if from - start >= LOOKED_AT && from < self.due.len() {
                return (found, Some((at, u64::MAX)));
            }
        }
        (found, None)
    }

    /// The live lease that an entry is about, unless it has moved on.
    fn live_at(&self, (at, id): &(Timestamp, u128)) -> Option<&Record<O>> {
        let record = self.records.get(id)?;
        (record.is_live() && record.due_at == *at).then_some(record)
    }

    /// When the next record is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.front().map(|&(at, _)| at)
    }

    fn keep(&mut self, record: Record<O>) {
        self.room.held.fetch_add(1, Ordering::Relaxed);
        self.live += usize::from(record.is_live());
        self.note(record.granted.id);
        self.schedule(record.due_at, record.granted.id);
        if let Some(ask) = record.held_under() {
            self.asks.insert(ask.into(), record.granted.id);
        }
        self.records.insert(record.granted.id, record);
    }

    fn let_go(&mut self, record: &Record<O>) {
        self.note(record.granted.id);
        self.room.held.fetch_sub(1, Ordering::Relaxed);
        self.live -= usize::from(record.is_live());
        if let Some(ask) = &record.idempotency
            && self.asks.get(ask) == Some(&record.granted.id)
        {
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

    /// Keeps the first entry one whose record is there, so that nobody is told to
    /// look at a lease that has moved on.
    fn trim(&mut self) {
        let current = |(at, id): &(Timestamp, u128)| {
            let record = self.records.get(id);
            record.is_some_and(|record| record.due_at == *at)
        };
        let passed = self.due.iter().position(current);
        self.due.drain(..passed.unwrap_or(self.due.len()));
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
