//! Semaphores and mutexes of leases: renewed while they are held, lost in time,
//! fenced; and a store that is away, or whose answers are lost.

mod flaky;
mod kept;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use flaky::{Flaky, Mood};
use tidegate::StoreError;
use tidegate::internal::Pace;
use tidegate::lock::LockError;
use tidegate::lock::{LeasedMutex, LeasedPermit, LeasedSemaphore};
use tidegate::{
    Admission, DEFAULT_WAIT, LeaseError, LeaseId, Limit, LimitSet, Loss, ManualClock, Timestamp,
};

const TTL: Duration = Duration::from_secs(30);

fn clock() -> ManualClock {
    ManualClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000))
}

fn semaphore(clock: &ManualClock, slots: u64) -> LeasedSemaphore {
    let builder = LeasedSemaphore::builder("gpu", slots).ttl(TTL);
    builder.clock(clock.clock()).build().expect("sound")
}

fn flaky(clock: &ManualClock) -> (LeasedSemaphore, Arc<Flaky>) {
    at(clock, Flaky::default())
}

fn at(clock: &ManualClock, store: Flaky) -> (LeasedSemaphore, Arc<Flaky>) {
    let store = Arc::new(store);
    let builder = LeasedSemaphore::builder("gpu", 1)
        .ttl(TTL)
        .clock(clock.clock());
    let built = builder.store(Arc::<Flaky>::clone(&store)).build();
    (built.expect("sound"), store)
}

fn take(semaphore: &LeasedSemaphore) -> LeasedPermit {
    let permit = semaphore.try_acquire().wait().expect("an answer");
    permit.expect("a slot is free")
}

fn is_full(semaphore: &LeasedSemaphore) -> bool {
    semaphore.try_acquire().wait().expect("an answer").is_none()
}

/// Renewals have a thread: what it is woken for it does a moment later.
#[expect(
    clippy::disallowed_methods,
    reason = "it looks from outside, and gives up"
)]
fn until(holds: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("the thread of renewals did nothing of the kind");
}

/// A third of the ttl passes, and the renewal that is due is made.
fn pass_a_third(clock: &ManualClock, permit: &LeasedPermit) {
    let before = permit.sure_until();
    clock.advance(TTL / 3);
    until(|| permit.sure_until() > before);
}

/// It kept the store's fast way from every permit, where nothing can be lost.
#[test]
fn an_idempotency_key_is_sent_to_a_store_that_can_lose_an_answer_and_to_no_other() {
    let clock = clock();
    for (store, keyed) in [(Flaky::default(), 1), (Flaky::sound(), 0)] {
        let (gpus, store) = at(&clock, store);
        let permit = gpus.acquire().wait().expect("a slot is free");
        assert!(store.asked() > 0);
        assert_eq!(store.asked_by_key(), keyed);
        permit.release().wait().expect("held");
        // A try is not repeated.
        take(&gpus).release().wait().expect("held");
        assert_eq!(store.asked_by_key(), keyed);
    }
}

#[test]
fn a_permit_is_renewed_for_as_long_as_it_is_held() {
    let clock = clock();
    let gpus = semaphore(&clock, 1);
    let permit = take(&gpus);
    let fence = permit.fence();
    let other = gpus.clone();
    drop(gpus);
    for _ in 0..12 {
        pass_a_third(&clock, &permit);
        assert!(permit.is_held() && is_full(&other));
    }
    permit.release().wait().expect("held to the end");
    assert!(take(&other).fence() > fence);
}

#[test]
fn a_permit_that_is_dropped_is_back_at_once_and_renewed_no_more() {
    let clock = clock();
    let gpus = semaphore(&clock, 2);
    let (one, other) = (take(&gpus), take(&gpus));
    let lost = one.lost();
    assert_eq!(gpus.available().wait(), Ok(0));
    drop(one);
    assert_eq!(gpus.available().wait(), Ok(1));
    assert_eq!(lost.wait(), None);
    drop((other, gpus));
    until(|| clock.next_alarm().is_none());
}

#[test]
fn a_permit_that_nobody_can_renew_is_lost_when_it_expires_and_not_before() {
    let clock = clock();
    let (gpus, store) = flaky(&clock);
    let permit = take(&gpus);
    let sure_until = permit.sure_until();
    store.is(Mood::Away);
    clock.advance(TTL - Duration::from_micros(1));
    assert!(permit.is_held());
    assert_eq!(permit.sure_until(), sure_until);
    let lost = permit.lost();
    let waits = thread::spawn(move || lost.wait());
    clock.advance(Duration::from_micros(1));
    let Some(Loss::NotRenewed(_)) = waits.join().expect("it ends") else {
        panic!("another reason");
    };
    assert!(!permit.is_held());
    store.is(Mood::Well);
    assert!(!permit.is_held(), "what was lost stays lost");
    let fence = permit.fence();
    let next = take(&gpus);
    assert!(next.fence() > fence);
    let ended = permit.release().wait();
    assert!(matches!(ended, Err(LeaseError::Ended(_))), "{ended:?}");
    assert!(is_full(&gpus), "the next one's slot is not given back");
}

#[test]
fn a_store_that_comes_back_in_time_keeps_the_permit() {
    let clock = clock();
    let (gpus, store) = flaky(&clock);
    let permit = take(&gpus);
    let before = permit.sure_until();
    store.is(Mood::Away);
    let asked = store.asked();
    clock.advance(TTL / 3);
    until(|| store.asked() > asked);
    store.is(Mood::Well);
    // It is tried again before the end.
    let again = || clock.next_alarm().filter(|at| *at < before);
    until(|| again().is_some());
    let pause = again().map(|at| at.since(clock.clock().now()).as_duration());
    clock.advance(pause.expect("an alarm"));
    until(|| permit.sure_until() > before);
    assert!(permit.is_held());
}

#[test]
fn no_permit_is_held_for_longer_than_it_may_be() {
    let clock = clock();
    let builder = LeasedSemaphore::builder("gpu", 1)
        .ttl(TTL)
        .clock(clock.clock());
    let gpus = builder.longest_hold(TTL / 2 * 3).build().expect("sound");
    let (permit, began) = (take(&gpus), clock.clock().now());
    pass_a_third(&clock, &permit);
    pass_a_third(&clock, &permit);
    let held = permit.sure_until().since(began).as_duration();
    assert_eq!(held, TTL / 2 * 3, "the last renewal is as long as is left");
    clock.advance(TTL / 6 * 5 - Duration::from_micros(1));
    assert_eq!(permit.confirm().wait(), Ok(true));
    assert!(is_full(&gpus));
    clock.advance(Duration::from_micros(1));
    let loss = permit.lost().wait().expect("it is lost");
    assert!(loss.to_string().contains("as long as it may be"), "{loss}");
    take(&gpus).release().wait().expect("it is the next one's");
}

#[test]
fn a_permit_that_is_revoked_is_lost_at_its_next_renewal() {
    let clock = clock();
    let gpus = semaphore(&clock, 1);
    let permit = take(&gpus);
    gpus.release(permit.id()).wait().expect("it is held");
    let next = take(&gpus);
    assert_eq!(
        permit.confirm().wait(),
        Ok(false),
        "who asks is told at once"
    );
    assert!(matches!(permit.loss(), Some(Loss::Ended | Loss::Forgotten)));
    let told = permit.release().wait();
    assert!(matches!(told, Err(LeaseError::Ended(_))), "{told:?}");
    gpus.release(next.id()).wait().expect("it is held");
    clock.advance(TTL / 3);
    let loss = next.lost().wait();
    assert!(matches!(loss, Some(Loss::Ended | Loss::Forgotten)));
}

#[test]
fn nothing_is_given_back_by_another_id_nor_twice() {
    let clock = clock();
    let gpus = semaphore(&clock, 1);
    let permit = take(&gpus);
    let other: LeaseId = "0123456789abcdef0123456789abcdef".parse().expect("an id");
    let unknown = Err(LeaseError::Unknown);
    assert_eq!(gpus.release(other).wait(), unknown);
    assert_eq!(gpus.of("elsewhere").release(other).wait(), unknown);
    assert!(is_full(&gpus));
    let id = permit.detach();
    assert!(is_full(&gpus), "left to who knows its id");
    gpus.release(id).wait().expect("it is held");
    let next = take(&gpus);
    // A retry gets the first answer, and takes nothing from the next.
    gpus.release(id).wait().expect("the same answer");
    assert!(next.is_held() && is_full(&gpus));
}

#[test]
fn a_permit_that_is_left_behind_is_back_when_it_expires() {
    let clock = clock();
    let gpus = semaphore(&clock, 1);
    take(&gpus).detach();
    clock.advance(TTL - Duration::from_micros(1));
    assert!(is_full(&gpus));
    clock.advance(Duration::from_micros(1));
    drop(take(&gpus));
}

#[test]
fn each_key_has_slots_of_its_own_and_a_permit_may_take_several() {
    let clock = clock();
    let gpus = semaphore(&clock, 3);
    let two = take(&gpus.many(2));
    assert!(is_full(&gpus.many(2)));
    let one = take(&gpus);
    assert!(is_full(&gpus));
    let elsewhere = take(&gpus.of("elsewhere").many(3));
    assert_eq!(elsewhere.key(), b"elsewhere");
    let never = gpus.many(4).acquire().wait();
    assert!(matches!(never, Err(LockError::NeverFits { .. })));
    drop((one, two));
    assert_eq!(gpus.available().wait(), Ok(3));
}

#[test]
fn who_waits_gets_the_slot_of_a_holder_that_expires_in_order_of_arrival() {
    let clock = clock();
    let gpus = semaphore(&clock, 1);
    take(&gpus).detach();
    let mut context = Context::from_waker(Waker::noop());
    let mut first = Box::pin(gpus.acquire_within(Duration::MAX));
    let mut second = Box::pin(gpus.acquire_within(4 * TTL));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    clock.advance(TTL);
    assert!(second.as_mut().poll(&mut context).is_pending());
    let std::task::Poll::Ready(Ok(Some(permit))) = first.as_mut().poll(&mut context) else {
        panic!("its turn has come");
    };
    let fence = permit.fence();
    drop(permit);
    let std::task::Poll::Ready(Ok(Some(permit))) = second.as_mut().poll(&mut context) else {
        panic!("its turn has come");
    };
    assert!(permit.fence() > fence);
}

#[test]
fn an_acquire_that_is_dropped_leaves_its_place_and_no_slot_taken() {
    let clock = clock();
    let gpus = semaphore(&clock, 1);
    let mut context = Context::from_waker(Waker::noop());
    let held = take(&gpus);
    let mut waits = Box::pin(gpus.acquire());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    drop(held);
    // It was given the slot by now, and was not told.
    drop(waits);
    assert_eq!(gpus.available().wait(), Ok(1));
    drop(gpus.release(take(&gpus).detach()));
    assert_eq!(
        gpus.available().wait(),
        Ok(0),
        "nothing is done before it is polled"
    );
}

#[test]
fn a_lock_is_waited_for_half_a_minute_unless_told_for_how_long() {
    let clock = clock();
    let gpus = semaphore(&clock, 1);
    let held = take(&gpus);
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = Box::pin(gpus.acquire());
    let mut for_ever = Box::pin(gpus.acquire_within(Duration::MAX));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    assert!(for_ever.as_mut().poll(&mut context).is_pending());
    (0..2).for_each(|_| pass_a_third(&clock, &held));
    clock.advance(TTL / 3 - Duration::from_micros(1));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_micros(1));
    let std::task::Poll::Ready(Err(late)) = waits.as_mut().poll(&mut context) else {
        panic!("its time is up");
    };
    assert_eq!(late, LockError::WaitedTooLong(DEFAULT_WAIT));
    assert!(late.to_string().contains("within 30s"), "{late}");
    until(|| held.sure_until() > clock.clock().now());
    (0..20).for_each(|_| pass_a_third(&clock, &held));
    assert!(for_ever.as_mut().poll(&mut context).is_pending());
    drop(held);
    let std::task::Poll::Ready(Ok(Some(_))) = for_ever.as_mut().poll(&mut context) else {
        panic!("its turn has come");
    };
}

#[test]
fn who_waits_too_long_is_told_not_now() {
    let gpus = LeasedSemaphore::builder("gpu", 1).build().expect("sound");
    let held = take(&gpus);
    let late = gpus.acquire_within(Duration::from_millis(20)).wait();
    assert!(late.expect("an answer").is_none());
    drop(held);
    let soon = gpus.acquire_within(Duration::from_secs(60)).wait();
    assert!(soon.expect("an answer").is_some());
}

#[test]
fn a_mutex_has_one_holder_at_a_time_and_every_holder_a_larger_fence() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 50;
    let account = LeasedMutex::builder("account").build().expect("sound");
    let (counter, last) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let held = account.lock().wait().expect("an answer");
                    let count = counter.load(Ordering::Relaxed);
                    let before = last.swap(held.fence(), Ordering::Relaxed);
                    assert!(held.fence() > before && held.is_held());
                    counter.store(count + 1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), THREADS * ROUNDS);
}

/// The store grants, and nobody hears of it: the slot is found, and no second one
/// is taken.
#[test]
fn an_answer_that_is_lost_takes_no_second_slot() {
    let (gpus, store) = {
        let store = Arc::<Flaky>::default();
        let builder = LeasedSemaphore::builder("gpu", 2).ttl(TTL);
        let built = builder.store(Arc::<Flaky>::clone(&store)).build();
        (built.expect("sound"), store)
    };
    store.is(Mood::Mute(1));
    let permit = gpus.acquire_within(Duration::from_secs(20)).wait();
    let permit = permit.expect("an answer").expect("a slot is free");
    assert_eq!(gpus.available().wait(), Ok(1));
    assert!(permit.is_held());
    permit.release().wait().expect("held to the end");
    assert_eq!(gpus.available().wait(), Ok(2));
}

/// Of a request that is told nothing at all, at most one slot is taken, for its ttl.
#[test]
fn an_ask_that_gives_up_leaves_at_most_one_slot_for_one_ttl() {
    let clock = clock();
    let (gpus, store) = flaky(&clock);
    store.is(Mood::Mute(1));
    let told = gpus.try_acquire().wait();
    assert!(matches!(
        told,
        Err(LockError::Store(StoreError::Unavailable(_)))
    ));
    store.is(Mood::Well);
    assert!(is_full(&gpus));
    clock.advance(TTL);
    drop(take(&gpus));
}

/// How long nobody has answered counts from the last time that somebody did: whoever
/// stands in line for long has been heard of.
#[test]
fn an_answer_lost_before_a_long_wait_does_not_count_after_it() {
    let clock = clock();
    let (gpus, store) = flaky(&clock);
    let held = take(&gpus);
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = Box::pin(gpus.acquire_within(Duration::MAX));
    store.is(Mood::Away);
    assert!(waits.as_mut().poll(&mut context).is_pending());
    store.is(Mood::Well);
    clock.advance(Duration::from_secs(1));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    (0..4).for_each(|_| pass_a_third(&clock, &held));
    store.is(Mood::Away);
    // The limits change, so that it has to ask again.
    let limit = gpus.set().limits().remove(0);
    gpus.set().put_limit(limit).expect("the same limit");
    let asked = store.asked();
    while store.asked() == asked {
        clock.advance(Duration::from_secs(1));
        assert!(waits.as_mut().poll(&mut context).is_pending());
    }
    store.is(Mood::Well);
    drop(held);
    let permit = loop {
        clock.advance(Duration::from_secs(1));
        if let std::task::Poll::Ready(permit) = waits.as_mut().poll(&mut context) {
            break permit;
        }
    };
    let permit = permit.expect("an answer").expect("it waits for ever");
    assert!(permit.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_and_those_who_wait_for_them_go_from_thread_to_thread() {
    let gpus = LeasedSemaphore::builder("gpu", 1).build().expect("sound");
    let held = gpus.acquire().await.expect("an answer");
    let waits = gpus.clone();
    let waits = tokio::spawn(async move { waits.acquire().await });
    let sees = tokio::spawn(held.lost());
    let released = thread::spawn(|| held.release().wait());
    released.join().expect("it ends").expect("held to the end");
    assert_eq!(sees.await.expect("it ends"), None);
    let permit = waits.await.expect("it ends").expect("an answer");
    let lost = tokio::spawn(permit.lost());
    drop(permit);
    assert_eq!(lost.await.expect("it ends"), None);
    drop(gpus.acquire().await.expect("an answer"));
}

#[test]
fn what_makes_no_sense_is_told_when_it_is_built() {
    assert!(LeasedSemaphore::builder("gpu", 0).build().is_err());
    assert!(LeasedSemaphore::builder("", 1).build().is_err());
    assert!(
        LeasedMutex::builder("m")
            .ttl(Duration::ZERO)
            .build()
            .is_err()
    );
    let ages = Duration::from_secs(1 << 40);
    assert!(LeasedMutex::builder("m").ttl(ages).build().is_err());
    let empty = LeasedMutex::builder("m").build().expect("sound");
    assert!(empty.of("").try_lock().wait().is_err(), "a key has bytes");
}

#[test]
fn a_lease_is_renewed_at_each_third_and_tried_again_ever_later() {
    let mut pace = Pace::new(TTL);
    assert_eq!(pace.answered(TTL), TTL / 3);
    let pauses = [1, 2, 4, 5, 5].map(Duration::from_secs);
    let tried: Vec<_> = (0..5).map(|_| pace.unanswered(TTL)).collect();
    assert_eq!(tried, pauses);
    assert!(!pace.is_answered());
    let little = Duration::from_secs(3);
    assert_eq!(pace.unanswered(little), little, "not beyond its end");
    assert_eq!(pace.answered(little), Duration::ZERO, "at once");
    assert!(pace.is_answered());
}

/// What is asked for again may have been granted and told before.
#[test]
fn a_grant_that_is_asked_for_again_while_nobody_answers_stays() {
    let store = Arc::new(Flaky::default());
    let set = LimitSet::builder().limit(Limit::calls("rpm", 100, TTL * 1_000));
    let set = set
        .clock(clock().clock())
        .store(Arc::<Flaky>::clone(&store));
    let set = set.build().expect("a set");
    let id: LeaseId = "00112233445566778899aabbccddeeff".parse().expect("an id");
    let grant = || set.grant("k", id, &[("rpm", 100)], (), TTL).wait();
    assert!(matches!(grant(), Ok(Admission::Granted(_))));
    store.is(Mood::Mute(1));
    grant().expect_err("nobody answers");
    let ended = set.return_grant("k", id, &[("rpm", 80)]).wait();
    ended.expect("it is there still");
    let peek = set.peek("k", 1).wait().expect("an answer");
    assert_eq!(peek.remaining("rpm"), Some(20));
}
