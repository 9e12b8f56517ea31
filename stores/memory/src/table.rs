//! One set's keys, spread over shards; bounded by `max_keys`.

use std::sync::Arc;

use foldhash::fast::RandomState;
use tidegate_store::core::Timestamp;
use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::Ordering;
use tidegate_store::{
    Answer, AtomicBucket, AtomicBuckets, Command, Count, Detail, Execution, Granted, Hour, KeyPath,
    LeaseCounts, Op, Out, Plan, Reply, StoreError, Table, Verb, decide,
};

use crate::bounds::Bounds;
use crate::capacity::Capacity;
use crate::hash::hash_of;
use crate::queue::Immediate;
use crate::shard::Shard;

/// Enough that two cores seldom meet, few enough that a small set stays small.
const SHARDS: usize = 64;

/// The table of one set: all its keys in this process.
#[derive(Debug)]
pub struct MemoryTable {
    pub(crate) shards: Box<[Padded]>,
    pub(crate) hasher: RandomState,
    pub(crate) capacity: Capacity,
    leases: Arc<LeaseCounts>,
}

/// A shard on cache lines of its own (two, for the prefetcher's pairs).
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Padded(pub(crate) Mutex<Shard>);

impl MemoryTable {
    pub(crate) fn new(plan: &Arc<Plan>, bounds: Bounds) -> Self {
        let hasher = RandomState::default();
        let leases = Arc::new(LeaseCounts::bounded(bounds.of_leases(), SHARDS));
        let shard = |_| Shard::new(plan, hasher.clone(), Arc::clone(&leases));
        let shard = |at| Padded(Mutex::new(shard(at)));
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            hasher: hasher.clone(),
            capacity: Capacity::new(bounds),
            leases,
        }
    }

    /// From here on these are the bounds; what is beyond them stays for as long as
    /// it matters.
    pub fn bound(&self, bounds: Bounds) {
        self.capacity.bound(bounds);
        self.leases.bound(bounds.of_leases());
        // What was set aside within wider bounds.
        let rooms = self
            .shards
            .iter()
            .map(|shard| shard.0.lock().ledger.give_room_back());
        rooms.for_each(drop);
    }

    /// From here on it is asked by another clock, which steps back or never does.
    pub fn set_steady_clock(&self, steady_clock: bool) {
        for shard in &self.shards {
            shard.0.lock().latest = Timestamp::MIN;
        }
        self.capacity.set_steady_clock(steady_clock);
    }

    /// The plan that its rows go by.
    #[must_use]
    pub fn last_plan(&self) -> Arc<Plan> {
        self.shards[0].0.lock().plan()
    }

    #[inline]
    pub(crate) fn shard(&self, root_hash: u64) -> &Mutex<Shard> {
        &self.shards[Self::shard_number(root_hash)].0
    }

    #[inline]
    pub(crate) const fn shard_number(root_hash: u64) -> usize {
        // A row's place goes by the high bits of its hash; these are the low ones.
        root_hash as usize % SHARDS
    }

    /// Runs `act`; while the table is full, drops what is spent in some shard
    /// and runs it again: a key and its ancestors may need more than one row.
    #[inline]
    fn with_room<T>(
        &self,
        now: Timestamp,
        mut act: impl FnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            match act() {
                Err(error) if self.makes_room(&error, now) => {}
                answer => return answer,
            }
        }
    }

    /// Whether there is room now where `error` said that there was none.
    #[cold]
    fn makes_room(&self, error: &StoreError, now: Timestamp) -> bool {
        match error {
            StoreError::KeysFull { .. } => self.ensure_capacity(now),
            StoreError::LeasesFull { .. } => self.expire_leases(now),
            StoreError::UsageFull { .. } => self.drop_usage(now),
            _ => false,
        }
    }

    /// Ends the leases that have expired in shards of which nothing was asked
    /// since; whether there were any.
    #[cold]
    fn expire_leases(&self, now: Timestamp) -> bool {
        let expire = |shard: &Padded| shard.0.lock().expire_leases(now, &self.capacity);
        self.shards.iter().filter(|shard| expire(shard)).count() > 0
    }

    /// Drops the records of usage that are over, once an hour; whether there were any.
    #[cold]
    fn drop_usage(&self, now: Timestamp) -> bool {
        let hour = Hour::of(now);
        if !self.capacity.may_find_usage(hour) {
            return false;
        }
        let drop = |shard: &Padded| shard.0.lock().usage.sweep(now, &self.capacity);
        let dropped = self.shards.iter().filter(|shard| drop(shard)).count();
        self.capacity.note_usage_swept(hour);
        dropped > 0
    }

    /// Drops every row that equals "never seen", shard by shard, until some
    /// were; remembers until when there is no point in trying again.
    #[cold]
    fn ensure_capacity(&self, now: Timestamp) -> bool {
        if self.capacity.is_full_at(now) {
            return false;
        }
        let lowered = self.capacity.lowered.load(Ordering::SeqCst);
        let mut next = Timestamp::MAX;
        for _ in 0..SHARDS {
            let turn = self.capacity.hand.fetch_add(1, Ordering::Relaxed);
            let swept = self.shards[turn % SHARDS]
                .0
                .lock()
                .sweep(now, &self.capacity);
            if swept.dropped > 0 {
                self.capacity.give_back(swept.dropped);
                return true;
            }
            next = next.min(swept.next);
        }
        self.capacity.note_full(now, next, lowered);
        false
    }
}

impl Table for MemoryTable {
    #[inline]
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        // By reference: a copy of what was just written word by word stalls.
        match &command.op {
            Op::One(path, verb) => self.one(command, path, verb, out),
            _ => self.rest(command, out),
        }
    }

    fn atomic_buckets(&self) -> Option<&dyn AtomicBuckets> {
        Some(self)
    }
}

impl MemoryTable {
    /// The one fast path: a take of one unit or more from a single bucket without
    /// ancestors, where its row is a word.
    #[inline]
    fn one(
        &self,
        command: &Command<'_>,
        path: &KeyPath<'_>,
        verb: &Verb<'_>,
        out: Out<'_>,
    ) -> Execution {
        if let &Verb::Take {
            amounts: &[amount],
            lease: None,
            detail,
        } = verb
            && detail != Detail::OnRefusal
            && amount > 0
            && path.depth() == 1
            && command.calendars.is_empty()
        {
            let (plan, key, now) = (command.plan, path.bytes(), command.now);
            let hash = hash_of(&self.hasher, key);
            let shard = self.shard(hash);
            let take = || {
                let mut shard = shard.lock();
                shard.take_one(plan, (hash, key), amount, now, &self.capacity)
            };
            match self.with_room(now, take) {
                Ok(Some((verdict, level))) => {
                    return out.ready(Ok(match detail {
                        Detail::Always => Reply::One(verdict, level),
                        Detail::Verdict | Detail::OnRefusal => Reply::Verdict(verdict),
                    }));
                }
                Ok(None) => {}
                Err(error) => return failed(out, error),
            }
        }
        self.whole(command, path, verb, out)
    }

    /// Apart from the fast path, which need not pay for what this needs of the stack.
    #[inline(never)]
    fn whole(
        &self,
        command: &Command<'_>,
        path: &KeyPath<'_>,
        verb: &Verb<'_>,
        out: Out<'_>,
    ) -> Execution {
        let root = hash_of(&self.hasher, path.root());
        let shard = self.shard(root);
        let mut one = command.one(*path, *verb);
        out.write(|answer| {
            shard.lock().execute(&mut one, root, &self.capacity, answer);
            if let Err(
                StoreError::KeysFull { .. }
                | StoreError::LeasesFull { .. }
                | StoreError::UsageFull { .. },
            ) = answer
            {
                self.again(command, (path, verb), (shard, root), answer);
            }
        })
    }

    /// Executes it again for as long as there was no room, and is now.
    #[cold]
    fn again(
        &self,
        command: &Command<'_>,
        (path, verb): (&KeyPath<'_>, &Verb<'_>),
        (shard, root): (&Mutex<Shard>, u64),
        answer: &mut Answer,
    ) {
        while let Err(error) = answer
            && self.makes_room(error, command.now)
        {
            let mut one = command.one(*path, *verb);
            shard.lock().execute(&mut one, root, &self.capacity, answer);
        }
    }

    #[cold]
    #[inline(never)]
    fn rest(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let answer = match command.op {
            Op::One(path, verb) => return self.one(command, &path, &verb, out),
            Op::Batch(items) => {
                let answers = items.iter().map(|(path, verb)| {
                    let mut answer = Ok(Reply::Done);
                    // Whatever is asked here is answered at once.
                    let _ = self.one(command, path, verb, Out::new(&mut answer));
                    answer
                });
                Ok(Reply::Batch(answers.collect()))
            }
            Op::Adopt => {
                self.adopt(command);
                Ok(Reply::Done)
            }
            Op::ListKeys(listing) => self.page_of_keys(&listing).map(Reply::Keys),
            Op::ListLeases(listing) => self.page_of_leases(&listing).map(Reply::Leases),
            Op::ListUsage(listing, hours) => self.page_of_usage(&listing, hours).map(Reply::Usage),
            Op::Count => Ok(Reply::Count(self.count(command.now))),
        };
        out.ready(answer)
    }

    fn adopt(&self, command: &Command<'_>) {
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            // An error says that a newer plan is here already.
            let _ = shard.follow(command.plan, command.now, command.calendars, &self.capacity);
        }
        self.capacity.reopen();
    }

    fn count(&self, now: Timestamp) -> Count {
        let shards = self.shards.iter();
        Count {
            keys: self.capacity.rows.load(Ordering::Relaxed),
            leases: Some(shards.map(|shard| shard.0.lock().ledger.held(now)).sum()),
            remembered: Some(self.leases.remembered()),
        }
    }
}

#[cold]
fn failed(out: Out<'_>, error: StoreError) -> Execution {
    out.ready(Err(error))
}

impl AtomicBuckets for MemoryTable {
    fn pin(&self, plan: &Arc<Plan>, key: &[u8], now: Timestamp) -> Option<Arc<AtomicBucket>> {
        let hash = hash_of(&self.hasher, key);
        let pin = || {
            self.shard(hash)
                .lock()
                .pin(plan, (hash, key), now, &self.capacity)
        };
        self.with_room(now, pin).ok().flatten()
    }

    fn unpin(&self, key: &[u8], bucket: Arc<AtomicBucket>) {
        let hash = hash_of(&self.hasher, key);
        self.shard(hash)
            .lock()
            .unpin((hash, key), bucket, &self.capacity);
    }
}

impl Immediate for MemoryTable {
    fn recall(&self, key: &[u8]) {
        let hash = hash_of(&self.hasher, key);
        self.shard(hash).lock().recall((hash, key));
    }

    fn find_repeated(&self, key: &KeyPath<'_>, ask: &[u8], now: Timestamp) -> Option<Granted> {
        let shard = self.shard(hash_of(&self.hasher, key.root())).lock();
        decide::find_repeated(
            &shard.ledger,
            &decide::scoped_idempotency_key(key, ask),
            now,
        )
    }

    fn plan_of(&self, key: &KeyPath<'_>) -> Arc<Plan> {
        let shard = self.shard(hash_of(&self.hasher, key.root()));
        shard.lock().plan()
    }
}
