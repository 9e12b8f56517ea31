//! What this process still has to give back: ends of leases that nobody waits for, and places
//! in queues, which met the lock of a process that stands still.
//!
//! A thread waits for those locks as long as there is any, and the next command on such a shard
//! gives it back first. What is not given back before the process ends, ends with it; and where a lock
//! is broken, for good, nothing is owed.

use std::collections::{BTreeMap, VecDeque};
use std::mem::ManuallyDrop;
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

/// For so long the thread waits for one lock before it looks at the next, and before it looks again
/// where it could not pay though the lock was given.
const PATIENCE: Duration = Duration::from_secs(1);

/// The first of these pauses, which grow.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Something to be given back.
pub(crate) trait Debt: Send + Sync {
    /// Where.
    fn shard(&self) -> usize;

    /// Gives it back.
    ///
    /// # Errors
    /// [`StoreError::Busy`]: the lock was not given in time. [`StoreError::Full`]: there is no room
    /// to give it back. Any other: there is nothing to be given back.
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
            let _parents = ManuallyDrop::new(std::mem::take(&mut *debts));
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
        self.wait_for(shard, self.steps.deadline)?;
        match self.pay(shard) {
            // The command may make room.
            Err(StoreError::Full(_)) => Ok(()),
            paid => paid,
        }
    }

    /// Waits for the lock of a shard on which something is owed.
    fn wait_for(&self, shard: usize, most: Duration) -> Result<(), StoreError> {
        if self.first(shard).is_none() {
            return Ok(());
        }
        match Txn::begin(&self.steps.segment, shard, most) {
            Err(error @ StoreError::Busy(_)) => return Err(error),
            // A lock that is broken is never given again.
            Err(_) => self.forget(shard),
            Ok(txn) => drop(txn),
        }
        Ok(())
    }

    /// Pays what is owed on a shard whose lock was given, until something cannot be paid.
    fn pay(&self, shard: usize) -> Result<(), StoreError> {
        while let Some(debt) = self.first(shard) {
            let mut trial = Trial {
                owed: self,
                debt,
                is_kept: false,
            };
            match trial.debt.pay() {
                Err(error @ StoreError::Busy(_)) => {
                    trial.is_kept = true;
                    return Err(error);
                }
                Err(error @ StoreError::Full(_)) => {
                    trial.is_kept = true;
                    self.put_off(&trial.debt);
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Nothing is owed on a shard any more.
    fn forget(&self, shard: usize) {
        let of_shard = self.debts.lock().by_shard.remove(&shard);
        let forgotten = of_shard.map_or(0, |debts| debts.len());
        self.count.fetch_sub(forgotten, Ordering::Relaxed);
    }

    fn first(&self, shard: usize) -> Option<Arc<dyn Debt>> {
        let debts = self.debts.lock();
        debts.by_shard.get(&shard)?.front().cloned()
    }

    /// Others on its shard are paid before it: they may make room.
    fn put_off(&self, debt: &Arc<dyn Debt>) {
        let mut debts = self.debts.lock();
        let Some(of_shard) = debts.by_shard.get_mut(&debt.shard()) else {
            return;
        };
        if of_shard
            .front()
            .is_some_and(|first| Arc::ptr_eq(first, debt))
        {
            of_shard.rotate_left(1);
        }
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
        let _paying = Paying(self);
        let (mut last, mut pause) = (0, FIRST_PAUSE);
        while let Some(shard) = self.next(last) {
            last = shard;
            if self.wait_for(shard, PATIENCE).is_err() {
                // It is waited for again.
                continue;
            }
            if self.pay(shard).is_ok() {
                pause = FIRST_PAUSE;
            } else {
                thread::park_timeout(pause);
                pause = (2 * pause).min(PATIENCE);
            }
        }
    }
}

/// A debt that is being paid. Whatever comes of it, a panic too, it is owed no more, unless it is
/// kept.
struct Trial<'o> {
    owed: &'o Owed,
    debt: Arc<dyn Debt>,
    is_kept: bool,
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.owed.paid(&self.debt);
        }
    }
}

/// The thread that waits for the locks: when it ends, as by a panic, the next debt has another.
struct Paying<'o>(&'o Owed);

impl Drop for Paying<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.debts.lock().is_waited_for = false;
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;
    use crate::layout::{SMALLEST, shard_at};
    use crate::lock;
    use crate::options::Options;
    use crate::segment::{self, Segment};

    /// Longer than any of this takes.
    const LONG: Duration = Duration::from_secs(60);

    const SHARD: usize = 3;

    /// What is tried tells of it.
    struct Told {
        tries: SyncSender<()>,
        told: fn() -> Result<(), StoreError>,
    }

    impl Debt for Told {
        fn shard(&self) -> usize {
            SHARD
        }

        fn pay(&self) -> Result<(), StoreError> {
            let _ = self.tries.try_send(());
            (self.told)()
        }
    }

    fn debt(told: fn() -> Result<(), StoreError>) -> (Arc<dyn Debt>, Receiver<()>) {
        let (tries, tried) = sync_channel(1_000);
        (Arc::new(Told { tries, told }), tried)
    }

    fn owed() -> (tempfile::TempDir, Arc<Owed>) {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let options = Options {
            dir: dir.path().to_owned(),
            size: SMALLEST,
            ..Options::default()
        };
        let path = segment::path("t", &options).expect("a name");
        let segment = Segment::open(&path, &options).expect("it opens");
        (dir, Owed::new(&Arc::new(Steps::new(segment, LONG))))
    }

    /// The thread that pays has ended.
    fn nobody_pays(owed: &Owed) {
        let (_nobody, tells) = sync_channel::<()>(1);
        let mut pauses = 0;
        while owed.debts.lock().is_waited_for {
            assert!(pauses < 6_000, "it pays still");
            let _ = tells.recv_timeout(Duration::from_millis(10));
            pauses += 1;
        }
    }

    /// The thread asked for it without end.
    #[test]
    fn behind_a_broken_lock_nothing_is_owed() {
        let (_dir, owed) = owed();
        let mapping = owed.steps.segment.mapping();
        let at = shard_at(SHARD);
        thread::scope(|scope| {
            let dies = || lock::lock(mapping, at, LONG).expect("a lock");
            scope.spawn(dies).join().expect("it ends");
        });
        let found = lock::lock(mapping, at, LONG).expect("a lock");
        assert_eq!(found, Some(lock::Found::OwnerDied));
        // Its state was not repaired.
        lock::unlock(mapping, at);
        let (debt, _) = debt(|| Ok(()));
        owed.add(debt);
        nobody_pays(&owed);
        assert!(!owed.is_any());
    }

    /// It was tried again at once, as often as a processor can.
    #[test]
    fn what_cannot_be_paid_though_the_lock_is_given_is_tried_seldom() {
        let (_dir, owed) = owed();
        let (debt, tried) = debt(|| Err(StoreError::Busy("another lock".to_owned())));
        owed.add(debt);
        tried.recv_timeout(LONG).expect("it is tried");
        let (_nobody, tells) = sync_channel::<()>(1);
        let _ = tells.recv_timeout(Duration::from_millis(500));
        let again = tried.try_iter().count();
        assert!(again <= 8, "tried {again} times more");
        owed.forget(SHARD);
        nobody_pays(&owed);
    }

    /// It was owed no more: a slot stayed held until its lease expired.
    #[test]
    fn what_finds_no_room_is_owed_still_and_keeps_back_no_command() {
        let (_dir, owed) = owed();
        let (debt, tried) = debt(|| Err(StoreError::Full("no room".to_owned())));
        owed.add(debt);
        for _ in 0..3 {
            tried.recv_timeout(LONG).expect("it is tried again");
        }
        assert_eq!(owed.pay_on(SHARD), Ok(()));
        let (behind, tried) = self::debt(|| Ok(()));
        owed.add(behind);
        tried.recv_timeout(LONG).expect("it is paid");
        assert!(owed.is_any());
        owed.forget(SHARD);
        nobody_pays(&owed);
    }

    /// The thread ended, and there was no other.
    #[test]
    fn a_debt_that_panics_is_owed_no_more_and_others_are_paid() {
        let (_dir, owed) = owed();
        let (panics, tried) = debt(|| panic!("as it is meant to"));
        owed.add(panics);
        tried.recv_timeout(LONG).expect("it is tried");
        nobody_pays(&owed);
        let (debt, tried) = debt(|| Ok(()));
        owed.add(debt);
        tried.recv_timeout(LONG).expect("it is paid");
        nobody_pays(&owed);
        assert!(!owed.is_any());
    }
}
