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
use tidegate_store::core::Timestamp;
use tidegate_store::{Ending, KeyCommand, KeyPath, OwnedPath, Plan, StoreError, Verb};

use crate::decide::Inner;
use crate::keys::Spot;
use crate::process;
use crate::steps::Steps;
use crate::txn::Txn;

/// So much is kept; what comes then is given back when its lease expires, or this process ends.
const MOST: usize = 65_536;

/// For so long the thread waits for one lock before it looks at the next.
const PATIENCE: Duration = Duration::from_secs(1);

/// If the limits change meanwhile, a lease is ended so often at once.
const MOST_STALE: usize = 64;

/// What is to be given back, and where.
pub(crate) struct Debt {
    table: Arc<Inner>,
    shard: usize,
    what: What,
}

enum What {
    /// A lease.
    Lease {
        path: OwnedPath,
        plan: Arc<Plan>,
        now: Timestamp,
        id: u128,
        ending: Unseen,
    },
    /// A place in the queue of a root.
    Place {
        root: Box<[u8]>,
        levels: usize,
        turn: u128,
    },
}

/// How a lease ends of which nobody says what was used.
enum Unseen {
    Release,
    Cancel,
    /// For each limit of its plan, whether its amount is given back.
    Fail(Box<[bool]>),
}

impl Debt {
    /// The end of a lease that nobody asks for again, if `command` is one.
    pub(crate) fn of(table: &Arc<Inner>, command: &KeyCommand<'_>) -> Option<Self> {
        let Verb::End {
            id,
            ending,
            remember: false,
        } = command.verb
        else {
            return None;
        };
        let ending = match ending {
            Ending::Release => Unseen::Release,
            Ending::Cancel => Unseen::Cancel,
            Ending::Fail(refunds) => Unseen::Fail(refunds.into()),
            Ending::Settle(_) => return None,
        };
        Some(Self {
            table: Arc::clone(table),
            shard: shard_of(table, command.key.root()),
            what: What::Lease {
                path: OwnedPath::of(&command.key),
                plan: Arc::clone(command.plan),
                now: command.now,
                id,
                ending,
            },
        })
    }

    /// The place of a turn in the queue of `root`.
    pub(crate) fn place(table: &Arc<Inner>, root: &[u8], levels: usize, turn: u128) -> Self {
        Self {
            table: Arc::clone(table),
            shard: shard_of(table, root),
            what: What::Place {
                root: root.into(),
                levels,
                turn,
            },
        }
    }

    /// Gives it back. An error but `Busy` says that there is nothing to be given back.
    fn pay(&self) -> Result<(), StoreError> {
        match &self.what {
            What::Lease {
                path,
                plan,
                now,
                id,
                ending,
            } => self.end((&path.lend(), plan, *now), *id, ending),
            What::Place { root, levels, turn } => self.table.give_up(root, *levels, *turn),
        }
    }

    /// Ends a lease by the limits of now.
    fn end(
        &self,
        (path, plan, now): (&KeyPath<'_>, &Arc<Plan>, Timestamp),
        id: u128,
        ending: &Unseen,
    ) -> Result<(), StoreError> {
        let mut ended = Err(StoreError::StalePlan);
        for _ in 0..MOST_STALE {
            let newest = self.table.revisions.newest_plan();
            let newest = newest.as_ref().unwrap_or(plan);
            let refunds = match ending {
                Unseen::Fail(refunds) => moved(refunds, plan, newest),
                Unseen::Release | Unseen::Cancel => Vec::new(),
            };
            let ending = match ending {
                Unseen::Release => Ending::Release,
                Unseen::Cancel => Ending::Cancel,
                Unseen::Fail(_) => Ending::Fail(&refunds),
            };
            let command = KeyCommand {
                plan: newest,
                key: *path,
                now,
                // What is given back needs none: it goes where it was charged.
                calendars: &[],
                verb: Verb::End {
                    id,
                    ending,
                    remember: false,
                },
            };
            ended = self.table.execute(&command).map(drop);
            if ended != Err(StoreError::StalePlan) {
                break;
            }
        }
        ended
    }
}

fn shard_of(table: &Inner, root: &[u8]) -> usize {
    Spot::new(table.shared.steps.segment.seed(), table.number, root).shard
}

/// What is said of each limit of `from`, for those of `to`.
fn moved(said: &[bool], from: &Plan, to: &Plan) -> Vec<bool> {
    let of = |uid| from.position(uid).and_then(|at| said.get(at).copied());
    let limits = to.limits().iter();
    limits.map(|limit| of(limit.uid) == Some(true)).collect()
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
    by_shard: BTreeMap<usize, VecDeque<Arc<Debt>>>,
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
    pub(crate) fn add(self: &Arc<Self>, debt: Debt) {
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
        let of_shard = debts.by_shard.entry(debt.shard).or_default();
        of_shard.push_back(Arc::new(debt));
        if !debts.is_waited_for {
            let owed = Arc::clone(self);
            let paying = thread::Builder::new().name("tidegate-shm-owed".to_owned());
            // Without one, the next command on the shard pays.
            debts.is_waited_for = paying.spawn(move || owed.pay_all()).is_ok();
        }
    }

    /// Pays what is owed at a root, before a command on it.
    ///
    /// # Errors
    /// [`StoreError::Busy`]: its lock was not given in time.
    pub(crate) fn pay_at(&self, table: &Inner, root: &[u8]) -> Result<(), StoreError> {
        self.pay(shard_of(table, root), self.steps.deadline)
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

    fn first(&self, shard: usize) -> Option<Arc<Debt>> {
        let debts = self.debts.lock();
        debts.by_shard.get(&shard)?.front().cloned()
    }

    /// It is paid; perhaps by two at once.
    fn paid(&self, debt: &Arc<Debt>) {
        let mut debts = self.debts.lock();
        let Some(of_shard) = debts.by_shard.get_mut(&debt.shard) else {
            return;
        };
        let is_first = |first: &Arc<Debt>| Arc::ptr_eq(first, debt);
        if of_shard.front().is_some_and(is_first) {
            of_shard.pop_front();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        if of_shard.is_empty() {
            debts.by_shard.remove(&debt.shard);
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
