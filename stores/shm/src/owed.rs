//! What this process still has to give back: ends of leases that nobody waits for, and places
//! in queues, which met the lock of a process that stands still.
//!
//! A thread waits for those locks as long as there is any, and the next command on such a shard
//! gives it back first. What is not given back before the process ends, ends with it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::StoreError;

use crate::process;
use crate::steps::Steps;
use crate::txn::Txn;

/// So much is kept; what comes then is given back when its lease expires, or this process ends.
const MOST: usize = 65_536;

/// For so long the thread waits for one lock before it looks at the next.
const PATIENCE: Duration = Duration::from_secs(1);

/// Something to be given back.
pub(crate) trait Debt: Send + Sync {
    /// Where.
    fn shard(&self) -> usize;

    /// Gives it back.
    ///
    /// # Errors
    /// [`StoreError::Busy`]: the lock was not given in time. Any other: there is nothing to be given
    /// back.
    fn pay(&self) -> Result<(), StoreError>;
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Owed {
    steps: Arc<Steps>,
    debts: Mutex<Debts>,
    /// How many they are.
    count: AtomicUsize,
    /// Of which fork's process they are.
    generation: AtomicU64,
}

#[derive(Default)]
struct Debts {
    by_shard: BTreeMap<usize, VecDeque<Arc<dyn Debt>>>,
    /// Whether a thread waits for the locks.
    is_waited_for: bool,
}

impl std::fmt::Debug for Debts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.by_shard.keys()).finish()
    }
}

impl Owed {
    pub(crate) fn new(steps: &Arc<Steps>) -> Arc<Self> {
        Arc::new(Self {
            steps: Arc::clone(steps),
            debts: Mutex::default(),
            count: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
        })
    }

    /// Whether this process owes anything. (What its parent owes, the child of a fork does not.)
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && self.generation.load(Ordering::Relaxed) == process::generation()
    }

    /// Keeps a debt, until it is paid.
    pub(crate) fn add(self: &Arc<Self>, debt: Arc<dyn Debt>) {
        let generation = process::generation();
        let mut debts = self.debts.lock();
        if self.generation.swap(generation, Ordering::Relaxed) != generation {
            // The parent's: its child leaves them as they are.
            let _parents = std::mem::ManuallyDrop::new(std::mem::take(&mut *debts));
            self.count.store(0, Ordering::Relaxed);
        }
        if self.count.load(Ordering::Relaxed) >= MOST {
            return;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let of_shard = debts.by_shard.entry(debt.shard()).or_default();
        of_shard.push_back(debt);
        if !debts.is_waited_for {
            let owed = Arc::clone(self);
            let paying = thread::Builder::new().name("tidegate-shm-owed".to_owned());
            // Without one, the next command on the shard pays.
            debts.is_waited_for = paying.spawn(move || owed.pay_all()).is_ok();
        }
    }

    /// Pays what is owed on a shard, before a command there.
    ///
    /// # Errors
    /// [`StoreError::Busy`]: its lock was not given in time.
    pub(crate) fn pay_on(&self, shard: usize) -> Result<(), StoreError> {
        self.pay(shard, self.steps.deadline)
    }

    /// Pays what is owed on a shard, once its lock is given.
    fn pay(&self, shard: usize, most: Duration) -> Result<(), StoreError> {
        if self.first(shard).is_some() {
            drop(Txn::begin(&self.steps.segment, shard, most)?);
        }
        while let Some(debt) = self.first(shard) {
            if let Err(error @ StoreError::Busy(_)) = debt.pay() {
                return Err(error);
            }
            self.paid(&debt);
        }
        Ok(())
    }

    fn first(&self, shard: usize) -> Option<Arc<dyn Debt>> {
        let debts = self.debts.lock();
        debts.by_shard.get(&shard)?.front().cloned()
    }

    /// It is paid; perhaps by two at once.
    fn paid(&self, debt: &Arc<dyn Debt>) {
        let mut debts = self.debts.lock();
        let Some(of_shard) = debts.by_shard.get_mut(&debt.shard()) else {
            return;
        };
        let is_first = |first: &Arc<dyn Debt>| Arc::ptr_eq(first, debt);
        if of_shard.front().is_some_and(is_first) {
            of_shard.pop_front();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        if of_shard.is_empty() {
            debts.by_shard.remove(&debt.shard());
        }
    }

    /// The next shard on which something is owed, after one; `None`: nothing is, and the thread
    /// ends.
    fn next(&self, after: usize) -> Option<usize> {
        let mut debts = self.debts.lock();
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        let behind = debts.by_shard.range(behind).next();
        let next = behind.or(debts.by_shard.first_key_value());
        let next = next.map(|(shard, _)| *shard);
        debts.is_waited_for = next.is_some();
        next
    }

    fn pay_all(&self) {
        let mut last = 0;
        while let Some(shard) = self.next(last) {
            // One that is not given in time is waited for again.
            let _ = self.pay(shard, PATIENCE);
            last = shard;
        }
    }
}
