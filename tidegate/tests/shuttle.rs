//! Interleavings of threads, explored by shuttle: the row, the queue and the
//! lease. Built only with `--cfg shuttle` (`cargo xtask test` does).
#![cfg(shuttle)]

use std::sync::Arc;
use std::time::Duration;

use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::{future, thread};
use tidegate::fair::{FairQueue, FairRequest};
use tidegate::{Lease, Limit, LimitPool, LimitSet, ManualClock, Member, Semaphore};

const SCHEDULES: usize = 2_000;
const HOUR: Duration = Duration::from_secs(3_600);

fn set(limits: impl IntoIterator<Item = Limit>) -> LimitSet {
    let time = ManualClock::default();
    let builder = LimitSet::builder().limits(limits).clock(time.clock());
    builder.build().expect("sensible limits")
}

/// Handles swap the word without a lock while keyed asks take it out under
/// one: together they admit exactly the burst.
#[test]
fn shuttle_handles_and_keyed_asks_admit_exactly_the_limit() {
    let run = || {
        let set = set([Limit::rate("r", 4, HOUR)]);
        let admitted = Arc::new(AtomicU64::new(0));
        let threads = (0..3).map(|by_handle| {
            let (set, admitted) = (set.clone(), Arc::clone(&admitted));
            thread::spawn(move || {
                let handle = set.handle("k").expect("a key");
                for _ in 0..2 {
                    let fits = match by_handle {
                        0 => set.check("k", 1).wait().expect("no error").admitted(),
                        _ => handle.admit(1).wait().expect("no error").admitted(),
                    };
                    admitted.fetch_add(u64::from(fits), Ordering::SeqCst);
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(admitted.load(Ordering::SeqCst), 4);
    };
    shuttle::check_random(run, SCHEDULES);
}

/// While a lease may give something back, no word holds the key's state: handles
/// that come, ask and go meanwhile see what everyone sees.
#[test]
fn shuttle_handles_beside_a_lease_that_is_settled_admit_exactly_the_limit() {
    let run = || {
        let set = set([Limit::rate("r", 5, HOUR)]);
        let threads = (0..2).map(|_| {
            let set = set.clone();
            thread::spawn(move || {
                let handle = set.handle("k").expect("a key");
                let asks = (0..2).map(|_| handle.admit(1).wait().expect("no error"));
                asks.filter(|verdict| verdict.admitted()).count() as u64
            })
        });
        let threads: Vec<_> = threads.collect();
        let lease = set.try_acquire("k", 3).wait().expect("no error").granted();
        let used = lease.map_or(0, |mut lease| {
            lease.settle(&[("r", 1)]).wait().expect("live");
            1
        });
        let admitted = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        let admitted: u64 = admitted.sum();
        let left = set
            .peek("k", 1)
            .wait()
            .expect("a peek")
            .standing("r")
            .expect("one");
        assert_eq!(left.remaining, 5 - admitted - used);
    };
    shuttle::check_random(run, SCHEDULES);
}

/// A thread that asks for one key again and again holds its cell; another
/// resets nothing, changes nothing, and takes the word out under the lock.
#[test]
fn shuttle_a_hot_key_beside_a_change_of_limits_admits_exactly_the_limit() {
    let run = || {
        let set = set([Limit::rate("r", 6, HOUR)]);
        let asker = |asks: usize| {
            let set = set.clone();
            thread::spawn(move || {
                let asks = (0..asks).map(|_| set.admit("k", 1).wait().expect("no error"));
                asks.filter(|verdict| verdict.admitted()).count()
            })
        };
        let (one, other) = (asker(6), asker(5));
        set.put_limit(Limit::rate("r", 8, HOUR)).expect("a limit");
        let granted = one.join().expect("no panic") + other.join().expect("no panic");
        assert_eq!(granted, 8);
    };
    shuttle::check_random(run, SCHEDULES);
}

/// A change of limits retires the cells that handles share: no charge is lost
/// on the way to the new ones.
#[test]
fn shuttle_a_change_of_limits_loses_no_charge_of_a_handle() {
    let run = || {
        let set = set([Limit::rate("r", 2, HOUR)]);
        let theirs = set.clone();
        let asker = thread::spawn(move || {
            let handle = theirs.handle("k").expect("a key");
            let asks = (0..4).map(|_| handle.admit(1).wait().expect("no error"));
            asks.filter(|verdict| verdict.admitted()).count()
        });
        set.put_limit(Limit::rate("r", 3, HOUR)).expect("sensible");
        let admitted = asker.join().expect("no panic");
        let left = set
            .peek("k", 1)
            .wait()
            .expect("a peek")
            .standing("r")
            .expect("one");
        assert_eq!(left.remaining, 3 - admitted as u64);
        assert!((2..=3).contains(&admitted));
    };
    shuttle::check_random(run, SCHEDULES);
}

/// However releases and arrivals interleave, nobody is left waiting for slots
/// that are free, no more are held than there are, and all come back.
#[test]
fn shuttle_no_wakeup_is_lost_and_no_slot() {
    let run = || {
        let set = set([Limit::concurrency("slots", 1)]);
        let holders = Arc::new(AtomicU64::new(0));
        let threads = (0..3).map(|_| {
            let (set, holders) = (set.clone(), Arc::clone(&holders));
            thread::spawn(move || {
                let lease = future::block_on(set.acquire("k", ())).expect("no error");
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                thread::yield_now();
                holders.fetch_sub(1, Ordering::SeqCst);
                drop(lease);
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("no panic"));
        let left = set
            .peek("k", ())
            .wait()
            .expect("a peek")
            .standing("slots")
            .expect("one");
        assert_eq!((left.remaining, set.statistics().waiting), (1, 0));
    };
    shuttle::check_random(run, SCHEDULES);
}

/// A future dropped at any point gives back its place and what it was given.
#[test]
fn shuttle_a_dropped_future_gives_everything_back() {
    let run = || {
        let set = set([Limit::concurrency("slots", 1)]);
        let lease = set.try_acquire("k", ()).wait().expect("no error");
        let theirs = set.clone();
        let quitter = thread::spawn(move || {
            let mut waiting = Box::pin(theirs.acquire("k", ()));
            let waker = std::task::Waker::noop();
            let mut context = std::task::Context::from_waker(waker);
            let polled = waiting.as_mut().poll(&mut context);
            thread::yield_now();
            drop((polled, waiting));
        });
        drop(lease);
        quitter.join().expect("no panic");
        let left = set
            .peek("k", ())
            .wait()
            .expect("a peek")
            .standing("slots")
            .expect("one");
        assert_eq!((left.remaining, set.statistics().waiting), (1, 0));
    };
    shuttle::check_random(run, SCHEDULES);
}

/// Two that settle one lease by its id get one settlement and its repetition.
#[test]
fn shuttle_a_lease_is_settled_at_most_once() {
    let run = || {
        let set = set([Limit::rate("r", 10, HOUR)]);
        let mut lease = set
            .try_acquire("k", 6)
            .wait()
            .expect("no error")
            .granted()
            .expect("fits");
        let (theirs, id) = (set.clone(), lease.id());
        let other =
            thread::spawn(move || theirs.settle("k", id, &[("r", 1)]).wait().expect("known"));
        let ours = set.settle("k", id, &[("r", 2)]).wait().expect("known");
        let theirs = other.join().expect("no panic");
        assert!(ours.repeated() != theirs.repeated());
        let used = ours.usage("r").expect("taken").used;
        assert_eq!(theirs.usage("r").expect("taken").used, used);
        assert!(lease.release().wait().expect("remembered").repeated());
        let left = set
            .peek("k", 1)
            .wait()
            .expect("a peek")
            .standing("r")
            .expect("one");
        assert_eq!(left.remaining, 10 - used);
    };
    shuttle::check_random(run, SCHEDULES);
}

fn pool_of_two() -> LimitPool {
    let member = || set([Limit::concurrency("slots", 1)]);
    let pool = LimitPool::builder().member("a", member());
    pool.member("b", member()).build().expect("two members")
}

fn held(pool: &LimitPool) -> [Lease; 2] {
    let take = |_| {
        pool.try_acquire("k", ())
            .wait()
            .expect("no error")
            .granted()
    };
    [0, 1].map(take).map(|lease| lease.expect("free"))
}

/// How many slots are free, how many leases are held, how many places are taken.
fn accounts(pool: &LimitPool) -> (u64, u64, u64) {
    let peek = |member: &Member| member.set().peek("k", ()).wait().expect("a peek");
    let left = |member| peek(member).standing("slots").expect("one").remaining;
    let waiting = |member: &Member| member.set().statistics().waiting;
    let members = || pool.members().iter();
    let free = members().map(left).sum();
    (
        free,
        members().map(Member::load).sum(),
        members().map(waiting).sum(),
    )
}

/// One who waits at two members while both are given back and another quits at
/// any point: it is woken, holds one lease, and nothing is left behind.
#[test]
fn shuttle_who_waits_for_a_pool_is_woken_and_holds_one_lease() {
    let run = || {
        let pool = pool_of_two();
        let releases = held(&pool).map(|lease| thread::spawn(move || drop(lease)));
        let theirs = pool.clone();
        let quitter = thread::spawn(move || {
            let mut waiting = Box::pin(theirs.acquire("k", ()));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let polled = waiting.as_mut().poll(&mut context);
            thread::yield_now();
            drop((polled, waiting));
        });
        let waited = future::block_on(pool.acquire("k", ()));
        let lease = waited.expect("no error").granted().expect("no deadline");
        for thread in releases.into_iter().chain([quitter]) {
            thread.join().expect("no panic");
        }
        assert_eq!(accounts(&pool), (1, 1, 0));
        drop(lease);
        assert_eq!(accounts(&pool), (2, 0, 0));
        assert_eq!(pool.statistics().waiting, 0);
    };
    shuttle::check_random(run, SCHEDULES);
}

/// One member's line is served in vain while the other is given back: an offer
/// that is refused here must not cost the one that would be granted there.
#[test]
fn shuttle_a_refusal_at_one_member_hides_no_slot_of_another() {
    let run = || {
        let pool = pool_of_two();
        let [at_a, at_b] = held(&pool);
        // It stands in both lines before anybody moves.
        let mut waiting = Box::pin(pool.acquire("k", ()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        let release = thread::spawn(move || drop(at_b));
        let full = pool.members()[0].set().clone();
        let passer_by = thread::spawn(move || {
            let refused = full
                .try_acquire("k", ())
                .wait()
                .expect("no error")
                .refused();
            assert!(refused.is_some());
        });
        let waited = future::block_on(waiting);
        let lease = waited.expect("no error").granted().expect("no deadline");
        assert_eq!(lease.member(), Some("b"));
        for thread in [release, passer_by] {
            thread.join().expect("no panic");
        }
        drop((lease, at_a));
        assert_eq!(accounts(&pool), (2, 0, 0));
    };
    shuttle::check_random(run, SCHEDULES);
}

/// Three come one after the other, and go in that order, however their threads
/// and the release interleave.
#[test]
fn shuttle_waiters_are_served_in_order() {
    let run = || {
        let set = set([Limit::concurrency("slots", 1)]);
        let held = set.try_acquire("k", ()).wait().expect("no error");
        let served = Arc::new(AtomicU64::new(0));
        let threads = (0..3).map(|number| {
            let (theirs, served) = (set.clone(), Arc::clone(&served));
            let mut turn = Box::pin(async move { theirs.acquire("k", ()).await });
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(turn.as_mut().poll(&mut context).is_pending());
            thread::spawn(move || {
                let lease = future::block_on(turn).expect("no error");
                assert_eq!(served.fetch_add(1, Ordering::SeqCst), number);
                drop(lease);
            })
        });
        let threads: Vec<_> = threads.collect();
        drop(held);
        let joined = threads.into_iter().map(thread::JoinHandle::join);
        joined.for_each(|thread| thread.expect("no panic"));
        assert_eq!(served.load(Ordering::SeqCst), 3);
    };
    shuttle::check_random(run, SCHEDULES);
}

/// A settlement beside the clock that takes its lease to its end: settled once,
/// its slots back once, whichever comes first.
#[test]
fn shuttle_a_settlement_that_races_with_the_expiry_gives_slots_back_once() {
    let run = || {
        let time = ManualClock::default();
        let limit = Limit::concurrency("slots", 2).ttl(Duration::from_secs(1));
        let builder = LimitSet::builder().limit(limit).clock(time.clock());
        let set = builder.build().expect("a sensible limit");
        let first = set.try_acquire("k", ()).wait().expect("no error");
        let first = std::mem::ManuallyDrop::new(first.granted().expect("free"));
        let (theirs, id) = (set.clone(), first.id());
        let settling = thread::spawn(move || theirs.settle("k", id, ()).wait().expect("known"));
        time.advance(Duration::from_secs(1));
        let other = set
            .try_acquire("k", &[("slots", 2)])
            .wait()
            .expect("no error");
        assert!(other.granted().is_some(), "both are free by now");
        assert!(!settling.join().expect("no panic").repeated());
        assert!(
            set.settle("k", id, ())
                .wait()
                .expect("remembered")
                .repeated()
        );
        let left = set.peek("k", ()).wait().expect("a peek");
        assert_eq!(left.standing("slots").expect("one").remaining, 2);
    };
    shuttle::check_random(run, SCHEDULES);
}

/// Permits are taken and given back by one word without a lock, and under the queue's
/// lock while somebody waits: whatever comes between, none is lost or granted twice.
#[test]
fn shuttle_no_permit_is_lost_or_doubled_beside_more_of_them_and_a_close() {
    let run = || {
        let semaphore = Arc::new(Semaphore::new(1));
        let held = Arc::new(AtomicU64::new(0));
        let threads = (0..3).map(|_| {
            let (semaphore, held) = (Arc::clone(&semaphore), Arc::clone(&held));
            thread::spawn(move || {
                let Ok(permit) = semaphore.acquire_owned().wait() else {
                    return;
                };
                assert!(held.fetch_add(1, Ordering::SeqCst) < 2);
                held.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
            })
        });
        let threads: Vec<_> = threads.collect();
        semaphore.add_permits(1);
        semaphore.close();
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(semaphore.available_permits(), 2);
    };
    shuttle::check_random(run, SCHEDULES);
}

/// Three tenants before one slot, and one who quits at any point: every turn is passed on,
/// whether it was called, has asked, or was still in the queue.
#[test]
fn shuttle_no_turn_of_a_fair_queue_is_lost() {
    let run = || {
        let (set, queue) = (set([Limit::concurrency("slots", 1)]), FairQueue::new());
        let holders = Arc::new(AtomicU64::new(0));
        let quitter = {
            let (set, queue) = (set.clone(), queue.clone());
            thread::spawn(move || {
                let entry = FairRequest::of("quitter").within(Duration::MAX);
                let mut waiting = Box::pin(queue.acquire(&set, entry, "k", ()));
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                let polled = waiting.as_mut().poll(&mut context);
                thread::yield_now();
                drop(polled);
                drop(waiting);
            })
        };
        let threads = ["a", "b", "b"].map(|tenant| {
            let (set, queue, holders) = (set.clone(), queue.clone(), Arc::clone(&holders));
            thread::spawn(move || {
                let entry = FairRequest::of(tenant).cost(2).within(Duration::MAX);
                let got = future::block_on(queue.acquire(&set, entry, "k", ()));
                let (lease, served) = got.expect("no error").granted().expect("it waits");
                assert!(holders.fetch_add(1, Ordering::SeqCst) < 1);
                holders.fetch_sub(1, Ordering::SeqCst);
                drop(lease);
                served.settle(1);
            })
        });
        for thread in threads.into_iter().chain([quitter]) {
            thread.join().expect("no panic");
        }
        assert_eq!((queue.waiting(), queue.flows()), (0, 0));
        let left = set.peek("k", ()).wait().expect("a peek");
        assert_eq!(left.standing("slots").expect("one").remaining, 1);
    };
    shuttle::check_random(run, SCHEDULES);
}
