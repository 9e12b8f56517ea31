//! Whether other processes are there is asked of the system: under the lock of a shard, for which
//! all others wait, of a few at most.

use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidegate::{Lease, Limit, LimitSet, PageOf, Request};
use tidegate_store::core::Timestamp;
use tidegate_store::{Select, StoreError};

use crate::error::Fault;
use crate::kept::Waiter;
use crate::keys::{RootKeys, kind};
use crate::layout::{SMALLEST, wakeup_slot, wakeup_slot_at};
use crate::options::Options;
use crate::process::tests::child;
use crate::process::{Process, looks};
use crate::root::{Root, place_bytes};
use crate::store::ShmStore;
use crate::txn::Txn;
use crate::waiters::LazyWaiters;

const FOREVER: Duration = Duration::from_secs(400 * 86_400);

/// More than are remembered.
const OTHERS: usize = 40;

/// So many are looked at under a lock at most.
const FEW: usize = 8;

/// Slots of a team and of each of its users, and processes that are there.
struct Table {
    store: Arc<ShmStore>,
    set: LimitSet,
    others: Vec<(Child, Process)>,
    _dir: TempDir,
}

impl Table {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let options = Options {
            dir: dir.path().to_owned(),
            size: SMALLEST,
            deadline: Duration::from_secs(60),
            ..Options::default()
        };
        let store = Arc::new(ShmStore::open("t", options).expect("a segment"));
        let slots = |name, level, most| Limit::concurrency(name, most).at_level(level).ttl(FOREVER);
        let set = LimitSet::builder().name("t").levels(["team", "user"]);
        let set = set
            .limit(slots("team", "team", 100))
            .limit(slots("user", "user", 1));
        let set = set.store(Arc::clone(&store) as _).build().expect("sound");
        Self {
            store,
            set,
            others: (0..OTHERS).map(|_| child()).collect(),
            _dir: dir,
        }
    }

    fn take(&self, key: &str) -> Option<Lease> {
        let taken = self.set.try_acquire(key, Request::default()).wait();
        taken.expect("an answer").granted()
    }

    /// As the others have left the root, one by one.
    fn others_leave(
        &self,
        mut one: impl FnMut(&mut Txn<'_>, &mut Root<'_>, usize, Process) -> Result<(), Fault>,
    ) {
        let steps = &self.store.0.shared.steps;
        let keys = RootKeys::new(steps.segment.seed(), 1, b"a");
        for (number, (_, process)) in self.others.iter().enumerate() {
            let step = steps.step(keys.shard, |txn| {
                let mut root = Root::load(txn, &keys)?;
                one(txn, &mut root, number, *process)?;
                root.save(txn)
            });
            step.expect("room");
        }
    }

    /// Each is noted as one that may hold leases.
    fn others_hold(&self) {
        self.others_leave(|txn, root, _, process| {
            txn.put(root.keys.bucket, &root.keys.holder(process), &[])?;
            Ok(())
        });
    }

    /// What `what` answers, and that it has looked at few under a lock.
    fn looks_at_few<T>(&self, what: impl FnOnce() -> T) -> T {
        looks::taken();
        let told = what();
        let looked = looks::taken();
        assert!(looked <= FEW, "{looked} processes under a lock");
        told
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for (child, _) in &mut self.others {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn who_is_refused_looks_for_killed_holders_without_the_lock() {
    let table = Table::new();
    table.others_hold();
    let held = table.looks_at_few(|| table.take("a/1"));
    assert!(held.is_some(), "it is free");
    assert!(table.looks_at_few(|| table.take("a/1")).is_none());
    let peek = || table.set.peek("a/1", Request::default()).wait();
    assert!(table.looks_at_few(peek).is_ok());
}

#[test]
fn who_comes_to_a_queue_looks_at_those_alone_that_keep_it_back() {
    let table = Table::new();
    let held = table.take("a/1").expect("it is free");
    // Each waits for a user of its own.
    table.others_leave(|txn, root, number, process| {
        let waiter = Waiter {
            turn: number as u128,
            process,
            wakeup_slot: 100,
            number: 0,
            levels: 0b10,
            key: format!("a/{}", 100 + number).into_bytes(),
        };
        let place = place_bytes((Timestamp::from_micros(number as i64), number as u64));
        let (keys, bucket) = (root.keys, root.keys.bucket);
        txn.put(bucket, &keys.of(kind::PLACE, &place), &waiter.encode())?;
        let turn = keys.of(kind::TURN, &waiter.turn.to_be_bytes());
        txn.put(bucket, &turn, &place)?;
        root.overview.waiting += 1;
        Ok(())
    });
    assert!(table.looks_at_few(|| table.take("a/1")).is_none());
    assert!(table.looks_at_few(|| table.take("a/100")).is_none());
    drop(held);
}

#[test]
fn who_lists_leases_looks_at_their_holders_without_a_lock() {
    let table = Table::new();
    let held: Vec<Lease> = (0..OTHERS)
        .map(|user| table.take(&format!("a/{user}")).expect("it is free"))
        .collect();
    let ids: Vec<u128> = held.iter().map(|lease| lease.id().to_u128()).collect();
    table.others_leave(|txn, root, number, process| {
        let key = root.keys.lease(ids[number]);
        let found = txn.look_up(root.keys.bucket, &key)?.expect("it is held");
        let lease = crate::kept::Lease::decode(&found)?;
        let its = crate::kept::Lease { process, ..lease };
        txn.put(root.keys.bucket, &key, &its.encode())?;
        Ok(())
    });
    let all = PageOf {
        select: Select::All,
        after: None,
        most: 100,
    };
    let list = || table.set.list_leases(all).wait();
    let listed = table.looks_at_few(list).expect("an answer");
    assert_eq!(listed.items.len(), OTHERS);
}

#[test]
fn who_wants_a_wakeup_slot_looks_at_its_owners_without_the_lock() {
    let table = Table::new();
    let steps = &table.store.0.shared.steps;
    let owned = steps.register(|txn| {
        for number in 0..wakeup_slot::COUNT {
            let (at, owner) = (wakeup_slot_at(number), table.others[number % OTHERS].1);
            txn.write(at + wakeup_slot::PID, owner.pid.into())?;
            txn.write(at + wakeup_slot::START, owner.start)?;
            txn.write(at + wakeup_slot::NAMESPACE, owner.namespace)?;
        }
        Ok(())
    });
    owned.expect("room");
    let waiters = LazyWaiters::new(steps);
    let none = table.looks_at_few(|| waiters.get().map(drop));
    assert!(matches!(none, Err(StoreError::Busy(_))));
}
