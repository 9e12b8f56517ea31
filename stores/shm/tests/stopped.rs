//! A process stands still in the middle of a step, as by `SIGSTOP`: what others end meanwhile
//! is not lost.

mod support;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use support::child::{Other, asked, hears, say};
use support::{Dir, waits};
use tidegate::{DecisionError, Lease, LeaseError, Limit, LimitSet, Request};
use tidegate_shm::{Options, ShmStore};
use tidegate_store::{StoreError, block_on};

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3_600);

/// So long a command waits here for the lock of one that stands still.
const DEADLINE: Duration = Duration::from_millis(50);

fn set(store: ShmStore) -> LimitSet {
    let slot = Limit::concurrency("slot", 1).ttl(HOUR);
    let calls = Limit::calls("calls", 1_000, 24 * 400 * HOUR);
    let set = LimitSet::builder().name("t").limit(slot).limit(calls);
    set.store(Arc::new(store)).build().expect("sound")
}

/// One that does not wait for long.
fn hasty(dir: &Dir) -> LimitSet {
    let options = Options {
        deadline: DEADLINE,
        ..support::options(dir.path())
    };
    set(ShmStore::open("test", options).expect("a segment"))
}

fn take(set: &LimitSet) -> Option<Lease> {
    let lease = set.try_acquire("k", Request::default()).wait();
    lease.expect("an answer").granted()
}

/// What the other process does.
#[test]
fn deeds_of_another_process() {
    let Some((dir, deed)) = asked() else { return };
    assert_eq!(deed, "look");
    let set = set(ShmStore::open("test", support::options(dir)).expect("a segment"));
    assert!(set.peek("k", Request::default()).wait().is_ok());
    say("is there");
    while let Some(what) = hears() {
        match &*what {
            // Before the lock, and behind it.
            "stand still" => {
                tidegate_shm::arm(2, || {
                    say("stands still");
                    hears();
                });
                assert!(set.peek("k", Request::default()).wait().is_ok());
                say("has looked");
            }
            "take" => {
                let patient = Request::default().within(PATIENCE);
                let taken = set.acquire("k", patient).wait().expect("an answer");
                assert!(taken.granted().is_some());
                say("was granted");
            }
            other => panic!("nobody does {other}"),
        }
    }
}

/// The other process, which has the lock of the shard.
fn stands_still(dir: &Dir) -> Other {
    let mut other = Other::start(dir.path(), "look");
    other.has_said("is there");
    stand_still(&mut other);
    other
}

fn stand_still(other: &mut Other) {
    other.hears("stand still");
    other.has_said("stands still");
}

/// The end of a lease that meets the other's lock.
fn is_told_busy(held: &mut Lease) {
    assert!(matches!(
        held.release().wait(),
        Err(LeaseError::Store(StoreError::Busy(_)))
    ));
}

fn goes_on(other: &mut Other) {
    other.hears("go on");
    other.has_said("has looked");
}

/// Its slot was nobody's until its lease expired.
#[test]
fn a_lease_let_go_of_while_another_process_stands_still_ends() {
    let dir = Dir::default();
    let set = hasty(&dir);
    let held = take(&set).expect("it is free");
    let mut other = stands_still(&dir);
    drop(held);
    goes_on(&mut other);
    assert!(take(&set).is_some());
    other.ends();
}

/// Nor does anybody have to ask here.
#[test]
fn another_process_has_its_slot_though_nobody_asks_here() {
    let dir = Dir::default();
    let set = hasty(&dir);
    let mut held = take(&set).expect("it is free");
    let mut other = stands_still(&dir);
    // Told, its holder may say it again, and has the lease until then.
    is_told_busy(&mut held);
    drop(held);
    goes_on(&mut other);
    other.hears("take");
    other.has_said("was granted");
    other.ends();
}

/// What was told has not been done.
#[test]
fn who_was_told_that_the_lock_was_anothers_holds_the_lease_still() {
    let dir = Dir::default();
    let set = hasty(&dir);
    let mut held = take(&set).expect("it is free");
    let mut other = stands_still(&dir);
    is_told_busy(&mut held);
    goes_on(&mut other);
    assert!(take(&set).is_none(), "it is held");
    held.release().wait().expect("held");
    assert!(take(&set).is_some());
    other.ends();
}

/// Its place stayed before all others, as long as its process was there.
#[test]
fn a_place_given_up_while_another_process_stands_still_keeps_nobody_back() {
    let dir = Dir::default();
    let set = hasty(&dir);
    let mut held = take(&set).expect("it is free");
    // Before one waits that does not for long.
    let mut other = Other::start(dir.path(), "look");
    other.has_said("is there");
    let gone = waits(set.acquire("k", Request::default().within(PATIENCE)));
    let hasty = Request::default().within(4 * DEADLINE);
    let hasty = waits(set.acquire("k", hasty));
    stand_still(&mut other);
    drop(gone);
    assert!(matches!(
        block_on(hasty),
        Err(DecisionError::Store(StoreError::Busy(_)))
    ));
    // The places are given up behind that: in vain, since nobody has the lock for so long.
    let (_nobody, tells) = sync_channel::<()>(0);
    let _ = tells.recv_timeout(8 * DEADLINE);
    goes_on(&mut other);
    held.release().wait().expect("held");
    assert!(take(&set).is_some());
    other.ends();
}

/// All of it was refused, for what is owed where one of its keys is.
#[test]
fn a_batch_is_answered_but_for_the_keys_of_a_shard_where_something_is_owed() {
    let dir = Dir::default();
    let set = hasty(&dir);
    let keys: Vec<String> = (0..40).map(|key| key.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).chain(["k"]).collect();
    let held = take(&set).expect("it is free");
    let mut other = stands_still(&dir);
    drop(held);
    // Without a slot, which needs a lease.
    let asked = [("calls", 1), ("slot", 0)];
    let alone = keys.iter().map(|key| set.check(*key, &asked).wait());
    let alone: Vec<bool> = alone.map(|told| told.is_ok()).collect();
    assert!(alone.contains(&true), "of 64 shards one is locked");
    assert!(!alone[keys.len() - 1], "this one");
    let items = keys.iter().map(|key| (*key, &asked));
    let answers = set.check_many(items).wait().expect("an answer to each");
    let answers: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(answers, alone);
    goes_on(&mut other);
    other.ends();
}
