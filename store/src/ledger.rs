//! The leases of some rows: found by id, retired in order of time.
//!
//! A record outlives its lease for as long as the plan's `keep` says, so that
//! a retried end gets the first answer and a late settle can still charge the
//! real use. Leases that are held and leases that are remembered have bounds of
//! their own: where too many are remembered, those are forgotten that would be
//! next in any case, and no new lease is refused for them.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{HashMap, HashSet, HashTable};
use smallvec::SmallVec;
use tidegate_core::{Amount, ChargeReference, Receipt, Timestamp};

pub use crate::due_order::DueKey;
use crate::due_order::DueOrder;
use crate::error::StoreError;
use crate::lease_counts::{LeaseCounts, MOST_SET_ASIDE};
use crate::plan::{Plan, PlanLimit};
use crate::reply::{Granted, Settlement};
use crate::usage::{Hour, UsageChange};

/// One charge of a limit by a lease. A limit has one, and one more for each time that
/// the lease was adjusted to more of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The limit's `uid`.
    pub uid: u32,
    /// How much was taken.
    pub amount: Amount,
    /// Where it was booked.
    pub reference: ChargeReference,
    /// The key was reset since: there is nothing left to give back.
    pub forgotten: bool,
    /// At which level of the key it is [counted](crate::usage) as used, if it is: the limit's when
    /// it was charged.
    pub counted_at: Option<u8>,
}

/// The shares of one lease.
pub type Shares = SmallVec<[Share; 3]>;

/// How far a lease has come.
#[derive(Clone, PartialEq, Debug)]
pub enum LeaseStage {
    /// Held.
    Live,
    /// Past its expiry; what the limits give back then has been given back.
    Expired,
    /// Ended, with the answer to repeat.
    Ended(Box<Settlement>),
}

/// A lease as its store remembers it. `O` tells the store whose it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Record<O> {
    /// Whose lease it is.
    pub owner: O,
    /// What was taken.
    pub shares: Shares,
    /// What was granted.
    pub granted: Granted,
    /// How far it has come.
    pub stage: LeaseStage,
    /// What it uses is [counted](crate::usage): it was granted by a plan that does.
    pub is_counted: bool,
    /// When something is to be done about it next.
    due_at: Timestamp,
    /// Its position among the records that are due at the same instant.
    sequence: u64,
    /// So many bytes of its owner are the root of its key, behind the slash of a path of
    /// entities.
    root: u16,
    is_path: bool,
    /// The idempotency key it was made under.
    idempotency: Option<Box<[u8]>>,
    /// A limit has more than one share.
    is_adjusted: bool,
}

impl<O> Record<O> {
    /// A live lease.
    #[inline]
    pub fn new(owner: O, shares: Shares, granted: Granted) -> Self {
        Self {
            owner,
            is_adjusted: has_repeated(&shares),
            shares,
            granted,
            stage: LeaseStage::Live,
            is_counted: false,
            due_at: granted.expires_at,
            sequence: 0,
            root: 0,
            is_path: false,
            idempotency: None,
        }
    }

    /// When something is to be done about it next.
    #[must_use]
    pub const fn due_at(&self) -> Timestamp {
        self.due_at
    }

    /// The idempotency key it was made under, as [`Ledger`] knows it.
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

    /// How much it has taken of the limit `uid`.
    #[must_use]
    pub fn taken(&self, uid: u32) -> Amount {
        let shares = self.shares.iter().filter(|share| share.uid == uid);
        shares.map(|share| share.amount).sum()
    }

    /// How much it has taken in all of the limit of the share at `at`; `None` unless that
    /// is its first.
    #[inline]
    pub(crate) fn taken_first(&self, at: usize) -> Option<Amount> {
        let share = self.shares.get(at)?;
        if !self.is_adjusted {
            return Some(share.amount);
        }
        let mut earlier = self.shares.iter().take(at);
        (!earlier.any(|other| other.uid == share.uid)).then(|| self.taken(share.uid))
    }

    /// Whether some limit has more than one share.
    #[inline]
    pub(crate) const fn is_adjusted(&self) -> bool {
        self.is_adjusted
    }

    /// Where to give `amount` of the limit `uid` back, the latest charge first: which
    /// share, and how much of it.
    #[inline]
    pub fn latest_first(
        &self,
        uid: u32,
        mut amount: Amount,
    ) -> impl Iterator<Item = (&Share, Amount)> {
        let shares = self.shares.iter().rev();
        let of_limit = shares.filter(move |share| share.uid == uid);
        of_limit.map_while(move |share| {
            let part = share.amount.min(amount);
            amount -= part;
            (part > 0).then_some((share, part))
        })
    }

    /// Notes what it has taken first of the limit `uid`, as that was booked.
    #[inline]
    pub(crate) fn charged(&mut self, uid: u32, amount: Amount, receipt: Receipt) {
        self.granted.fence = self.granted.fence.max(receipt.fence);
        self.shares.push(Share {
            uid,
            amount,
            reference: receipt.reference,
            forgotten: false,
            counted_at: None,
        });
    }

    /// Whether it was granted some of the limit `uid`, though that may all have come back.
    pub(crate) fn took(&self, uid: u32) -> bool {
        self.shares.iter().any(|share| share.uid == uid)
    }

    /// Notes that what it has taken is counted, each limit where `plan` has it.
    pub(crate) fn count(&mut self, plan: &Plan) {
        self.is_counted = true;
        for share in &mut self.shares {
            let limit = plan.position(share.uid).map(|at| &plan.limits()[at]);
            share.counted_at = limit.and_then(PlanLimit::counted_at);
        }
    }

    /// Notes that it has taken `amount` more of the limit `uid`, which was booked at
    /// `reference`, and is counted at a level. Of many charges the last ones count as booked with
    /// the one before them that is counted at the same level, if there is one: less of them may come back
    /// then, never more.
    pub fn take_more(
        &mut self,
        uid: u32,
        amount: Amount,
        (reference, counted_at): (ChargeReference, Option<u8>),
    ) {
        if amount == 0 {
            return;
        }
        let of_limit = || self.shares.iter().filter(|share| share.uid == uid);
        let is_full = of_limit().count() >= MOST_CHARGES;
        let is_alike = |share: &Share| share.uid == uid && share.counted_at == counted_at;
        let alike = is_full.then(|| self.shares.iter().rposition(is_alike));
        let last = self.shares.iter().rposition(|share| share.uid == uid);
        let more = Share {
            uid,
            amount,
            reference,
            forgotten: false,
            counted_at,
        };
        let is_like = |share: &Share| {
            share.reference == reference && share.counted_at == counted_at && !share.forgotten
        };
        match (last, alike.flatten()) {
            // It has come back, and counts no more.
            (Some(last), _) if self.shares[last].amount == 0 => self.shares[last] = more,
            (Some(last), _) if is_like(&self.shares[last]) => self.shares[last].amount += amount,
            (_, Some(alike)) => self.shares[alike].amount += amount,
            _ => self.shares.push(more),
        }
        self.is_adjusted = has_repeated(&self.shares);
    }

    /// Notes that `amount` of the limit `uid` was given back, the latest charge first. If that is all, it is
    /// as if it had never taken of it, unless that `stays`.
    pub fn take_less(&mut self, uid: u32, mut amount: Amount, stays: bool) {
        let shares = self.shares.iter_mut().rev();
        for share in shares.filter(|share| share.uid == uid) {
            let part = share.amount.min(amount);
            amount -= part;
            share.amount -= part;
        }
        let mut has_one = !stays || self.taken(uid) > 0;
        self.shares.retain(|share| {
            let is_of_others = share.uid != uid;
            is_of_others || share.amount > 0 || !std::mem::replace(&mut has_one, true)
        });
        self.is_adjusted = has_repeated(&self.shares);
    }

    /// The root of its key.
    fn root(&self) -> &[u8]
    where
        O: AsRef<[u8]>,
    {
        let owner = self.owner.as_ref();
        let begins = usize::from(self.is_path);
        let root = owner.get(begins..begins + usize::from(self.root));
        root.unwrap_or(owner)
    }

    /// Whether it has neither ended nor been found expired.
    const fn is_live(&self) -> bool {
        matches!(self.stage, LeaseStage::Live)
    }

    /// Whether it was to be forgotten by `now`, and is still here.
    fn is_forgotten(&self, now: Timestamp) -> bool {
        !self.is_live() && self.due_at <= now
    }

    /// Whether it was made under an idempotency key: then two may hold it, the first
    /// delivery of the request and its retry, and each may end it.
    pub(crate) const fn has_idempotency(&self) -> bool {
        self.idempotency.is_some()
    }
}

/// Whether two shares are of the same limit.
fn has_repeated(shares: &[Share]) -> bool {
    let earlier = |at: usize| shares[..at].iter();
    let mut shares = shares.iter().enumerate();
    shares.any(|(at, share)| earlier(at).any(|other| other.uid == share.uid))
}

/// How many entries are looked at for one page, about.
const LOOKED_AT: usize = 1_024;

/// So many records at most are forgotten by one command, so that none takes long.
const FORGOTTEN_AT_ONCE: usize = 256;

/// A lease remembers so many charges of one limit apart; one more for each level at which none of
/// them is counted.
const MOST_CHARGES: usize = 8;

/// The records of some rows. See the [module](self).
#[derive(Debug)]
pub struct Ledger<O> {
    /// Each stays where it is for as long as it is there.
    records: Vec<Option<Record<O>>>,
    vacant: Vec<u32>,
    /// The index of each record, by its id.
    ids: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
    /// The leases that are held, by the idempotency key of their request.
    by_idempotency_key: HashMap<Box<[u8]>, u128, foldhash::fast::RandomState>,
    /// The live leases, in the order of their expiry.
    live: DueOrder,
    /// The others, in the order in which they are forgotten.
    remembered: DueOrder,
    /// About no record is anything to be done before.
    due_from: Timestamp,
    /// How many live leases each root has, while one may have as many as it may.
    of_root: Option<HashTable<(u64, usize)>>,
    next_sequence: u64,
    counts: Arc<LeaseCounts>,
    /// So many leases it may hold beside those that are counted.
    room: usize,
    /// Whose records have changed, if a journal wants to know.
    changed: Option<HashSet<u128, foldhash::fast::RandomState>>,
    /// What was used, and is not kept yet.
    used: Vec<UsageChange>,
}

impl<O: PartialEq + AsRef<[u8]>> Ledger<O> {
    /// An empty ledger that takes its part of `counts`.
    #[must_use]
    pub fn new(counts: Arc<LeaseCounts>) -> Self {
        Self {
            records: Vec::new(),
            vacant: Vec::new(),
            ids: HashTable::new(),
            hasher: foldhash::fast::RandomState::default(),
            by_idempotency_key: HashMap::default(),
            live: DueOrder::default(),
            remembered: DueOrder::default(),
            due_from: Timestamp::MAX,
            of_root: None,
            next_sequence: 0,
            counts,
            room: 0,
            changed: None,
            used: Vec::new(),
        }
    }

    /// From here on, changes are noted for [`take_changed`](Self::take_changed).
    pub fn note_changes(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// From here on, no changes are noted.
    pub fn stop_noting(&mut self) {
        self.changed = None;
    }

    /// The ids of the records that were added, changed or removed since the
    /// last time.
    pub fn take_changed(&mut self) -> impl IntoIterator<Item = u128> + use<O> {
        self.changed
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Notes that `amount` more was used of `limit` in an hour. Of what is held nothing is used.
    pub(crate) fn use_more(&mut self, limit: &PlanLimit, hour: Hour, amount: i64) {
        if let Some(level) = limit.counted_at() {
            self.use_at((level, &limit.name), hour, amount);
        }
    }

    /// Notes that `amount` more, or below 0 less, was used at a level of the limit of this name.
    pub(crate) fn use_at(&mut self, (level, name): (u8, &Arc<str>), hour: Hour, amount: i64) {
        if amount != 0 {
            self.used.push(UsageChange {
                level: usize::from(level),
                limit: Arc::clone(name),
                hour,
                amount,
            });
        }
    }

    /// What one command, or one lease that was found expired, has changed of usage: for the
    /// store to keep in the same step. Nothing unless the plan counts it, and nothing of a limit
    /// that a key of `depth` levels no longer reaches: it was moved to a deeper one meanwhile.
    pub fn drain_used(&mut self, depth: usize) -> impl Iterator<Item = UsageChange> + '_ {
        let used = self.used.drain(..);
        used.filter(move |change| change.level < depth)
    }

    /// Notes a record as changed.
    #[inline]
    pub fn note(&mut self, id: u128) {
        if let Some(changed) = &mut self.changed {
            changed.insert(id);
        }
    }

    /// The record of the lease `id`, whoever's it is.
    #[must_use]
    pub fn get(&self, id: u128) -> Option<&Record<O>> {
        self.record(self.index(id)?)
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds a lease of a key of `root` at `now`, under an idempotency key if the request had
    /// one. What it has taken is written into what this answers.
    ///
    /// # Errors
    /// [`StoreError::LeasesFull`], [`StoreError::RootLeasesFull`],
    /// [`StoreError::DuplicateLease`].
    #[inline]
    pub fn insert(
        &mut self,
        owner: impl FnOnce() -> O,
        granted: Granted,
        (root, now): (&[u8], Timestamp),
        idempotency_key: Option<Box<[u8]>>,
    ) -> Result<&mut Record<O>, StoreError> {
        let (id, due_at) = (granted.id, granted.expires_at);
        self.ensure_room(root)?;
        let index = self.index_for(id, now)?;
        if let Some(of_root) = &mut self.of_root {
            count_up(of_root, root_hash(&self.hasher, root));
        }
        let sequence = self.enter((id, due_at), index, true, idempotency_key.as_deref());
        // Made where it stays: what was just written piece by piece is slow to copy.
        let record = self.records[index as usize].insert(Record {
            owner: owner(),
            shares: Shares::new(),
            granted,
            stage: LeaseStage::Live,
            is_counted: false,
            due_at,
            sequence,
            root: root.len() as u16,
            is_path: false,
            idempotency: idempotency_key,
            is_adjusted: false,
        });
        record.is_path = is_path(record.owner.as_ref(), root);
        Ok(record)
    }

    /// Puts a record of a key of `root` back as a journal has it; what is
    /// forgotten for it is noted as changed.
    pub fn restore(&mut self, mut record: Record<O>, root: &[u8]) {
        let id = record.granted.id;
        record.root = root.len() as u16;
        record.is_path = is_path(record.owner.as_ref(), root);
        self.keep(record);
        if self.index(id).is_some()
            && let Some(changed) = &mut self.changed
        {
            changed.remove(&id);
        }
    }

    /// The lease that was made under an idempotency key, unless it has ended or was
    /// found expired.
    #[must_use]
    pub fn find_by_idempotency_key(&self, idempotency_key: &[u8]) -> Option<&Record<O>> {
        self.get(*self.by_idempotency_key.get(idempotency_key)?)
    }

    /// Notes that the shares that `which` picks, of leases whose owner
    /// `concerns`, have nothing left to give back.
    pub fn forget_charges(
        &mut self,
        concerns: impl Fn(&O) -> bool,
        which: impl Fn(&Share) -> bool,
    ) {
        // One that has ended gives nothing back any more.
        let records = self.records.iter_mut().flatten();
        let records = records.filter(|record| !matches!(record.stage, LeaseStage::Ended(_)));
        for record in records.filter(|record| concerns(&record.owner)) {
            let shares = record.shares.iter_mut().filter(|share| which(share));
            shares.for_each(|share| share.forgotten = true);
            if let Some(changed) = &mut self.changed {
                changed.insert(record.granted.id);
            }
        }
    }

    /// The lease `id` of `owner`, if it is held or remembered at `now`.
    ///
    /// # Errors
    /// [`StoreError::UnknownLease`] if there is none, or it is another's.
    pub fn find(&self, id: u128, owner: &O, now: Timestamp) -> Result<&Record<O>, StoreError> {
        let index = self.find_index(id, |of| of == owner, now)?;
        self.record(index).ok_or(StoreError::UnknownLease)
    }

    /// The index of that lease, until a record is added or removed; whose it is,
    /// `is_its` says.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn find_index(
        &self,
        id: u128,
        is_its: impl Fn(&O) -> bool,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let index = self.index(id).ok_or(StoreError::UnknownLease)?;
        let record = self.record(index);
        match record.is_some_and(|record| is_its(&record.owner) && !record.is_forgotten(now)) {
            true => Ok(index),
            false => Err(StoreError::UnknownLease),
        }
    }

    /// The record at an index.
    #[inline]
    #[must_use]
    pub fn record(&self, index: usize) -> Option<&Record<O>> {
        self.records.get(index)?.as_ref()
    }

    /// Takes the lease `id` of `owner` out.
    ///
    /// # Errors
    /// As [`find`](Self::find), whatever the instant.
    pub fn remove(&mut self, id: u128, owner: &O) -> Result<Record<O>, StoreError> {
        let index = self.find_index(id, |of| of == owner, Timestamp::MIN)?;
        self.take(index).ok_or(StoreError::UnknownLease)
    }

    /// Puts a record back that was taken out, to be looked at again `due_at`.
    pub fn put_back(&mut self, mut record: Record<O>, due_at: Timestamp) {
        record.due_at = due_at;
        self.keep(record);
    }

    /// The record at `index` has come as far as `stage`, and is looked at again
    /// `due_at`.
    pub fn go_on(&mut self, index: usize, stage: LeaseStage, due_at: Timestamp) {
        if let Some(mut record) = self.take(index) {
            record.stage = stage;
            self.put_back(record, due_at);
        }
    }

    /// Takes out the next record that is due at `now`, if any.
    pub fn take_due(&mut self, now: Timestamp) -> Option<Record<O>> {
        let first = match (self.live.first(), self.remembered.first()) {
            (Some(live), Some(remembered)) => Some(live.min(remembered)),
            (live, remembered) => live.or(remembered),
        };
        self.take_at(first, now)
    }

    /// Takes out the next live lease that has expired by `now`, if any.
    pub fn take_expired(&mut self, now: Timestamp) -> Option<Record<O>> {
        self.take_at(self.live.first(), now)
    }

    fn take_at(&mut self, first: Option<(DueKey, u32)>, now: Timestamp) -> Option<Record<O>> {
        let ((at, _), index) = first?;
        if at > now {
            return None;
        }
        self.take(index as usize)
    }

    /// Forgets what is to be forgotten by `now`, but not much at once: what is
    /// left is found no more.
    pub fn forget_due(&mut self, now: Timestamp) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            match self.remembered.first() {
                Some(((at, _), index)) if at <= now => self.forget_at(index as usize),
                _ => return,
            }
        }
    }

    /// How many leases are held at `now`.
    #[must_use]
    pub fn held(&self, now: Timestamp) -> usize {
        let all = self.live.from((Timestamp::MIN, 0));
        self.live.len() - all.take_while(|((at, _), _)| *at <= now).count()
    }

    /// How many leases are remembered that are not held any more.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.remembered.len()
    }

    /// The next live leases after a position in the order of expiry, and that
    /// of the last, if there may be more. Not many are looked at.
    ///
    /// Leases that expire at the same instant are in the order of `rank`, which
    /// tells them apart: it stands for their ids, which are secrets.
    pub fn held_after(
        &self,
        (after, last): DueKey,
        most: usize,
        rank: impl Fn(u128) -> u64,
    ) -> (Vec<&Record<O>>, Option<DueKey>) {
        let mut found = Vec::new();
        let mut last_listed = (after, last);
        let mut rest = self.live.from((after, 0)).peekable();
        let mut looked_at = 0;
        while let Some(&((at, _), _)) = rest.peek() {
            if looked_at >= LOOKED_AT {
                return (found, Some(last_listed));
            }
            let alike = std::iter::from_fn(|| rest.next_if(|((other, _), _)| *other == at));
            let alike = alike.filter_map(|(_, index)| self.record(index as usize));
            let ranked = alike.map(|record| (rank(record.granted.id), record));
            let mut ranked: Vec<_> = ranked.collect();
            looked_at += ranked.len();
            ranked.retain(|(rank, _)| at > after || *rank > last);
            ranked.sort_unstable_by_key(|(rank, _)| *rank);
            for (rank, record) in ranked {
                if found.len() == most {
                    return (found, Some(last_listed));
                }
                found.push(record);
                last_listed = (at, rank);
            }
        }
        (found, None)
    }

    /// Whether something is to be done about a record at `now`.
    #[inline]
    pub fn is_due(&mut self, now: Timestamp) -> bool {
        now >= self.due_from && self.is_next_due(now)
    }

    #[cold]
    fn is_next_due(&mut self, now: Timestamp) -> bool {
        self.due_from = self.next_due().unwrap_or(Timestamp::MAX);
        now >= self.due_from
    }

    /// When something is to be done about a record next.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let due = |order: &DueOrder| order.first().map(|((at, _), _)| at);
        match (due(&self.live), due(&self.remembered)) {
            (Some(live), Some(remembered)) => Some(live.min(remembered)),
            (live, remembered) => live.or(remembered),
        }
    }

    /// When the next live lease expires, or expired.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.live.first().map(|((at, _), _)| at)
    }

    /// As [`next_due`](Self::next_due), for what is due after `now`.
    #[must_use]
    pub fn next_due_after(&self, now: Timestamp) -> Option<Timestamp> {
        let after = |order: &DueOrder| {
            let mut later = order.from((now, u64::MAX));
            later.find(|((at, _), _)| *at > now).map(|((at, _), _)| at)
        };
        match (after(&self.live), after(&self.remembered)) {
            (Some(live), Some(remembered)) => Some(live.min(remembered)),
            (live, remembered) => live.or(remembered),
        }
    }

    /// Keeps a record.
    fn keep(&mut self, mut record: Record<O>) {
        let (id, due_at) = (record.granted.id, record.due_at);
        if record.is_live()
            && let Some(of_root) = &mut self.of_root
        {
            count_up(of_root, root_hash(&self.hasher, record.root()));
        }
        let index = self.vacant_index();
        let rehash = |&other: &u32| hash_at(&self.records, other);
        self.ids.insert_unique(hash_of(id), index, rehash);
        let (is_live, held_under) = (record.is_live(), record.held_under());
        record.sequence = self.enter((id, due_at), index, is_live, held_under);
        self.records[index as usize] = Some(record);
    }

    /// An index for a new lease that it is found at by its id.
    ///
    /// # Errors
    /// [`StoreError::DuplicateLease`].
    #[inline]
    fn index_for(&mut self, id: u128, now: Timestamp) -> Result<u32, StoreError> {
        let index = self.vacant_index();
        let is_its = |&other: &u32| is_at(&self.records, other, id);
        let rehash = |&other: &u32| hash_at(&self.records, other);
        let there = match self.ids.entry(hash_of(id), is_its, rehash) {
            Entry::Vacant(entry) => {
                entry.insert(index);
                return Ok(index);
            }
            Entry::Occupied(entry) => *entry.get() as usize,
        };
        self.vacant.push(index);
        let is_forgotten = |record: &Record<O>| record.is_forgotten(now);
        if !self.record(there).is_some_and(is_forgotten) {
            return Err(StoreError::DuplicateLease);
        }
        self.forget_at(there);
        self.index_for(id, now)
    }

    /// An index at which no record is.
    #[inline]
    fn vacant_index(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.records.push(None);
            (self.records.len() - 1) as u32
        })
    }

    /// Enters a record that is due at an instant: its sequence number. A live one has an
    /// idempotency key if its request had one.
    #[inline]
    fn enter(
        &mut self,
        (id, due_at): (u128, Timestamp),
        index: u32,
        is_live: bool,
        idempotency_key: Option<&[u8]>,
    ) -> u64 {
        self.note(id);
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.due_from = self.due_from.min(due_at);
        if let Some(idempotency_key) = idempotency_key {
            self.by_idempotency_key.insert(idempotency_key.into(), id);
        }
        match is_live {
            true => {
                self.hold();
                self.live.insert((due_at, sequence), index);
            }
            false => self.remember((due_at, sequence), index),
        }
        sequence
    }

    #[inline(never)]
    fn remember(&mut self, due_key: DueKey, index: u32) {
        if !self.counts.may_remember_beside(self.remembered.len()) {
            self.forget_first();
        }
        self.counts.remember();
        self.remembered.insert(due_key, index);
    }

    /// Forgets one for the next that is to be remembered, in this ledger.
    fn forget_first(&mut self) {
        if let Some((_, index)) = self.remembered.first() {
            self.forget_at(index as usize);
        }
    }

    /// Takes the record at `index` out.
    fn take(&mut self, index: usize) -> Option<Record<O>> {
        self.unlink(index);
        self.records[index].take()
    }

    /// Forgets the record at `index`.
    pub fn forget_at(&mut self, index: usize) {
        self.unlink(index);
        self.records[index] = None;
    }

    /// What is known of the record at `index`, which is to be taken out next, is so no
    /// more.
    #[inline]
    fn unlink(&mut self, index: usize) {
        let Some(record) = &self.records[index] else {
            return;
        };
        let (id, due_key) = (record.granted.id, (record.due_at, record.sequence));
        let is_live = record.is_live();
        if is_live && let Some(of_root) = &mut self.of_root {
            count_down(of_root, root_hash(&self.hasher, record.root()));
        }
        if let Some(idempotency_key) = &record.idempotency
            && self.by_idempotency_key.get(idempotency_key) == Some(&id)
        {
            self.by_idempotency_key.remove(idempotency_key);
        }
        self.note(id);
        if is_live {
            self.live.remove(due_key);
            self.release();
        } else {
            self.counts.forget();
            self.remembered.remove(due_key);
        }
        let is_its = |&at: &u32| at as usize == index;
        if let Ok(entry) = self.ids.find_entry(hash_of(id), is_its) {
            entry.remove();
        }
        self.vacant.push(index as u32);
    }

    /// Sees to it that one more lease of `root` may be held.
    ///
    /// # Errors
    /// [`StoreError::LeasesFull`], [`StoreError::RootLeasesFull`].
    #[inline]
    fn ensure_room(&mut self, root: &[u8]) -> Result<(), StoreError> {
        if self.room == 0 {
            self.room = self.counts.set_aside()?;
        }
        // No root holds more than all of them do.
        match self.of_root.is_some() || self.live.len() >= self.counts.max_leases_per_root() {
            true => self.check_root(root),
            false => Ok(()),
        }
    }

    /// Checks that one more lease of `root` may be held; who has how many is counted
    /// until there are far fewer.
    #[cold]
    fn check_root(&mut self, root: &[u8]) -> Result<(), StoreError> {
        let max_leases_per_root = self.counts.max_leases_per_root();
        if self.live.len() < max_leases_per_root / 2 {
            self.of_root = None;
            return Ok(());
        }
        let hasher = &self.hasher;
        let of_root = self.of_root.get_or_insert_with(|| {
            let mut of_root = HashTable::new();
            let live = self.records.iter().flatten().filter(|r| r.is_live());
            live.for_each(|record| count_up(&mut of_root, root_hash(hasher, record.root())));
            of_root
        });
        let hash = root_hash(hasher, root);
        let held = of_root.find(hash, |(of, _)| *of == hash);
        match held.map_or(0, |(_, held)| *held) >= max_leases_per_root {
            true => Err(StoreError::RootLeasesFull {
                max_leases_per_root,
            }),
            false => Ok(()),
        }
    }

    #[inline]
    fn hold(&mut self) {
        match self.room.checked_sub(1) {
            Some(left) => self.room = left,
            None => self.counts.hold(),
        }
    }

    #[inline]
    fn release(&mut self) {
        self.room += 1;
        if self.room > 2 * MOST_SET_ASIDE {
            self.counts.give_back(MOST_SET_ASIDE);
            self.room -= MOST_SET_ASIDE;
        }
    }

    /// Gives back the room that it has set aside and does not need; whether there was any.
    pub fn give_room_back(&mut self) -> bool {
        self.counts.give_back(self.room);
        std::mem::take(&mut self.room) > 0
    }

    /// The index of the record of the lease `id`.
    #[inline]
    fn index(&self, id: u128) -> Option<usize> {
        let is_its = |&index: &u32| is_at(&self.records, index, id);
        let found = self.ids.find(hash_of(id), is_its);
        found.map(|&index| index as usize)
    }
}

/// Whether the record at `index` is of the lease `id`.
#[inline]
fn is_at<O>(records: &[Option<Record<O>>], index: u32, id: u128) -> bool {
    let record = records.get(index as usize).and_then(Option::as_ref);
    record.is_some_and(|record| record.granted.id == id)
}

/// Whether a key of this root is a path of entities: the root is behind its first slash.
fn is_path(key: &[u8], root: &[u8]) -> bool {
    key.first() == Some(&b'/') && root.first() != Some(&b'/')
}

/// What stands for a root in the count of its leases.
fn root_hash(hasher: &foldhash::fast::RandomState, root: &[u8]) -> u64 {
    let mut hash = hasher.build_hasher();
    hash.write(root);
    hash.finish()
}

fn count_up(of_root: &mut HashTable<(u64, usize)>, root: u64) {
    match of_root.entry(root, |(of, _)| *of == root, |(of, _)| *of) {
        Entry::Occupied(mut entry) => entry.get_mut().1 += 1,
        Entry::Vacant(entry) => drop(entry.insert((root, 1))),
    }
}

fn count_down(of_root: &mut HashTable<(u64, usize)>, root: u64) {
    if let Ok(mut entry) = of_root.find_entry(root, |(of, _)| *of == root) {
        let held = &mut entry.get_mut().1;
        *held -= 1;
        if *held == 0 {
            entry.remove();
        }
    }
}

/// What stands for the id of the record at `index`.
fn hash_at<O>(records: &[Option<Record<O>>], index: u32) -> u64 {
    let record = records.get(index as usize).and_then(Option::as_ref);
    record.map_or(0, |record| hash_of(record.granted.id))
}

/// What stands for an id in the index: ids are random as they are.
#[inline]
const fn hash_of(id: u128) -> u64 {
    (id ^ (id >> 64)) as u64
}
