//! Leases of any set that are kept alive: renewed while they are held, lost in time, and
//! said so to whoever waits for it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::flaky::{Flaky, Mood};
use super::{TTL, clock, until};
use tidegate::{
    Lease, LeaseEnd, LeaseError, Limit, LimitPool, LimitSet, LimitSetBuilder, Loss, ManualClock,
    Request, RequestError,
};

/// Jobs that run, and how many may start: general limits, not a semaphore's.
fn builder(clock: &ManualClock) -> LimitSetBuilder {
    let limits = [
        Limit::concurrency("running", 1),
        Limit::calls("tokens", 100, Duration::from_secs(86_400)),
    ];
    LimitSet::builder().limits(limits).clock(clock.clock())
}

fn flaky(clock: &ManualClock) -> (LimitSet, Arc<Flaky>) {
    let store = Arc::<Flaky>::default();
    let set = builder(clock).store(Arc::<Flaky>::clone(&store)).build();
    (set.expect("sound"), store)
}

fn ask() -> Request<'static> {
    Request::named(&[("running", 1), ("tokens", 40)]).ttl(TTL)
}

fn take(set: &LimitSet) -> Lease {
    let admission = set.try_acquire("nightly", ask()).wait();
    admission.expect("an answer").granted().expect("it fits")
}

fn keep(set: &LimitSet) -> Lease {
    let mut lease = take(set);
    lease.keep_alive(TTL).wait().expect("it is held");
    lease
}

fn is_held(set: &LimitSet) -> bool {
    let asked = set.try_acquire("nightly", &[("running", 1)]).wait();
    asked.expect("an answer").granted().is_none()
}

fn pass_a_third(clock: &ManualClock, lease: &Lease) {
    let before = lease.sure_until();
    clock.advance(TTL / 3);
    until(|| lease.sure_until() > before);
}

#[test]
fn a_kept_lease_is_renewed_at_each_third_for_as_long_as_it_is_held() {
    let clock = clock();
    let set = builder(&clock).build().expect("sound");
    let mut job = keep(&set);
    let (id, granted_at) = (job.id(), job.granted_at());
    for _ in 0..12 {
        pass_a_third(&clock, &job);
        assert!(job.is_held() && is_held(&set));
    }
    assert_eq!((job.id(), job.granted_at()), (id, granted_at));
    let settled = job.settle(&[("tokens", 30)]).wait().expect("it was held");
    assert!(!settled.expired() && !settled.repeated());
    assert!(!is_held(&set));
    assert_eq!((job.is_held(), job.loss()), (false, None));
    assert_eq!(job.lost().wait(), None, "its holder has ended it");
    until(|| clock.next_alarm().is_none());
}

#[test]
fn a_lease_that_nobody_keeps_is_not_renewed() {
    let clock = clock();
    let set = builder(&clock).build().expect("sound");
    let mut lease = take(&set);
    assert_eq!(clock.next_alarm(), None, "there is nothing to do");
    assert_eq!((lease.is_held(), lease.loss()), (true, None));
    assert_eq!(lease.sure_until(), lease.expires_at());
    let lost = lease.lost();
    clock.advance(TTL);
    assert!(lease.is_expired() && !is_held(&set));
    assert!(!lease.is_held(), "by the clock alone");
    let why = Loss::NotRenewed("it is not kept alive".to_owned());
    assert_eq!((lost.wait(), lease.loss()), (Some(why.clone()), Some(why)));
    let kept = lease.keep_alive(TTL).wait();
    assert!(matches!(kept, Err(LeaseError::Ended(_))));
}

#[test]
fn a_lease_that_is_renewed_when_due_asks_for_nothing_before() {
    let clock = clock();
    let (set, store) = flaky(&clock);
    let mut job = take(&set);
    let asked = store.asked();
    job.renew_when_due(Some(TTL)).expect("it is held");
    clock.advance(TTL / 3 - Duration::from_micros(1));
    assert_eq!(store.asked(), asked);
    let before = job.sure_until();
    clock.advance(Duration::from_micros(1));
    until(|| job.sure_until() > before);
    for _ in 0..4 {
        pass_a_third(&clock, &job);
    }
    assert!(job.is_held());
    // Of a lease with less than two thirds left it is due.
    let mut late = set
        .try_acquire("other", ask())
        .wait()
        .expect("an answer")
        .granted()
        .expect("it fits");
    clock.advance(TTL / 2);
    let before = late.sure_until();
    late.renew_when_due(None).expect("it is held");
    until(|| late.sure_until() > before);
    let none = late.renew_when_due(Some(Duration::ZERO));
    assert_eq!(
        none,
        Err(LeaseError::Request(RequestError::LeaseLength(
            Duration::ZERO
        )))
    );
    late.release().wait().expect("it is held");
    let ended = late.renew_when_due(Some(TTL));
    assert!(matches!(ended, Err(LeaseError::Ended(_))));
}

/// It was taken for one that is renewed from there on.
#[test]
fn a_lease_that_has_expired_is_not_renewed_any_more() {
    let clock = clock();
    let (set, _) = flaky(&clock);
    let mut job = take(&set);
    clock.advance(TTL);
    let expired = job.renew_when_due(Some(TTL));
    let at = LeaseEnd::Expired(job.expires_at());
    assert_eq!(expired, Err(LeaseError::Ended(at)));
}

/// The thread of its set ended with it: no lease of the set was renewed from there on.
#[test]
fn a_renewal_that_panics_ends_alone() {
    let clock = clock();
    let store = Arc::<Flaky>::default();
    let limits = [Limit::concurrency("running", 2)];
    let set = LimitSet::builder().limits(limits).clock(clock.clock());
    let set = set.store(Arc::<Flaky>::clone(&store)).build();
    let set = set.expect("sound");
    let ask = || Request::named(&[("running", 1)]).ttl(TTL);
    let mut jobs = ["first", "second"].map(|key| {
        let admission = set.try_acquire(key, ask()).wait();
        admission.expect("an answer").granted().expect("it fits")
    });
    for job in &mut jobs {
        job.keep_alive(TTL).wait().expect("it is held");
    }
    let before = jobs[0].sure_until();
    store.is(Mood::Panics);
    clock.advance(TTL / 3);
    until(|| jobs.iter().any(|job| job.sure_until() > before));
    let (kept, lost): (Vec<_>, Vec<_>) = jobs.iter().partition(|job| job.sure_until() > before);
    let ([kept], [lost]) = (&kept[..], &lost[..]) else {
        panic!("one of the two is renewed");
    };
    pass_a_third(&clock, kept);
    pass_a_third(&clock, kept);
    assert!(kept.is_held() && !lost.is_held());
    assert!(matches!(lost.loss(), Some(Loss::NotRenewed(_))));
}

#[test]
fn a_kept_lease_that_is_dropped_is_given_back_and_renewed_no_more() {
    let clock = clock();
    let set = builder(&clock).build().expect("sound");
    let job = keep(&set);
    let lost = job.lost();
    drop(job);
    assert!(!is_held(&set));
    assert_eq!(lost.wait(), None);
    until(|| clock.next_alarm().is_none());
    // The thread is the set's, and serves the next one.
    let job = keep(&set);
    pass_a_third(&clock, &job);
    assert!(job.is_held());
}

#[test]
fn a_kept_lease_that_somebody_ended_is_lost_at_its_next_renewal() {
    let clock = clock();
    let set = builder(&clock).build().expect("sound");
    let job = keep(&set);
    let lost = job.lost();
    let told = thread::spawn(move || lost.wait());
    set.release("nightly", job.id()).wait().expect("it is held");
    assert!(job.is_held(), "nobody has told its holder yet");
    clock.advance(TTL / 3);
    assert_eq!(told.join().expect("it ends"), Some(Loss::Ended));
    assert_eq!((job.is_held(), job.loss()), (false, Some(Loss::Ended)));
}

#[test]
fn a_kept_lease_that_nobody_can_renew_is_lost_when_it_expires_and_not_before() {
    let clock = clock();
    let (set, store) = flaky(&clock);
    let job = keep(&set);
    let sure_until = job.sure_until();
    store.is(Mood::Away);
    clock.advance(TTL - Duration::from_micros(1));
    assert!(job.is_held());
    assert_eq!(job.sure_until(), sure_until);
    clock.advance(Duration::from_micros(1));
    let lost = job.lost().wait();
    assert!(matches!(lost, Some(Loss::NotRenewed(_))), "{lost:?}");
    store.is(Mood::Well);
    assert!(!job.is_held(), "what was lost stays lost");
}

#[test]
fn a_store_that_comes_back_in_time_keeps_the_lease() {
    let clock = clock();
    let (set, store) = flaky(&clock);
    let job = keep(&set);
    let before = job.sure_until();
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
    until(|| job.sure_until() > before);
    assert!(job.is_held());
}

#[test]
fn a_kept_lease_is_adjusted_and_handed_over() {
    let clock = clock();
    let set = builder(&clock).build().expect("sound");
    let mut job = keep(&set);
    let adjusted = job.adjust(&[("tokens", 90)]).wait().expect("it is held");
    assert!(adjusted.admitted());
    pass_a_third(&clock, &job);
    assert_eq!(job.expires_at(), job.sure_until());
    let lost = job.lost();
    let id = job.detach();
    assert_eq!(lost.wait(), None, "its holder has ended it");
    until(|| clock.next_alarm().is_none());
    let settled = set.settle("nightly", id, ()).wait().expect("it is held");
    assert_eq!(settled.usage("tokens").map(|usage| usage.taken), Some(90));
}

#[test]
fn a_length_that_no_lease_has_and_a_lease_that_has_ended_are_errors() {
    let clock = clock();
    let set = builder(&clock).build().expect("sound");
    let mut lease = take(&set);
    let kept = lease.keep_alive(Duration::ZERO).wait();
    assert_eq!(
        kept,
        Err(LeaseError::Request(RequestError::LeaseLength(
            Duration::ZERO
        )))
    );
    assert!(lease.is_held() && is_held(&set), "as before");
    lease.release().wait().expect("it is held");
    assert_eq!((lease.is_held(), lease.loss()), (false, None));
    assert_eq!(lease.lost().wait(), None);
    let kept = lease.keep_alive(TTL).wait();
    assert!(matches!(kept, Err(LeaseError::Ended(_))));
}

#[test]
fn a_lease_of_a_pool_is_kept_at_the_member_that_gave_it() {
    let clock = clock();
    let set = builder(&clock).build().expect("sound");
    let pool = LimitPool::builder().member("only", set.clone()).build();
    let pool = pool.expect("sound");
    let lease = pool
        .try_acquire("nightly", ask())
        .wait()
        .expect("an answer");
    let mut job = lease.granted().expect("it fits");
    job.keep_alive(TTL).wait().expect("it is held");
    for _ in 0..4 {
        pass_a_third(&clock, &job);
    }
    assert!(job.is_held() && is_held(&set));
    assert_eq!(job.member(), Some("only"));
}

#[test]
fn a_lease_that_could_not_be_settled_is_kept_alive_all_the_same() {
    let clock = clock();
    let (set, store) = flaky(&clock);
    let mut job = keep(&set);
    let settled = job.settle(&[("no such limit", 1)]).wait();
    assert!(matches!(
        settled,
        Err(LeaseError::Request(RequestError::UnknownLimit { .. }))
    ));
    pass_a_third(&clock, &job);
    store.is(Mood::Away);
    let settled = job.settle(&[("tokens", 30)]).wait();
    assert!(matches!(settled, Err(LeaseError::Store(_))), "{settled:?}");
    store.is(Mood::Well);
    pass_a_third(&clock, &job);
    assert!(job.is_held());
    job.settle(&[("tokens", 30)]).wait().expect("it is held");
}

#[test]
fn a_kept_lease_is_kept_with_another_ttl_from_there_on() {
    let clock = clock();
    let (set, store) = flaky(&clock);
    let mut job = keep(&set);
    let lost = job.lost();
    let expires_at = job.renew(TTL / 10).wait().expect("it is held");
    assert_eq!(expires_at, clock.clock().now() + (TTL / 10).into());
    assert_eq!(job.expires_at(), expires_at);
    for _ in 0..3 {
        let before = job.sure_until();
        clock.advance(TTL / 30);
        until(|| job.sure_until() > before);
    }
    // Nobody knows whether a renewal arrived whose answer did not come.
    store.is(Mood::Away);
    let renewed = job.keep_alive(TTL / 30).wait();
    assert!(matches!(renewed, Err(LeaseError::Store(_))), "{renewed:?}");
    clock.advance(TTL / 30);
    assert!(!job.is_held());
    assert!(matches!(lost.wait(), Some(Loss::NotRenewed(_))));
}

/// Nothing was left of it, so it was tried again without a pause, and without an end: the
/// thread of its set did nothing else any more.
#[test]
fn a_lease_that_expires_while_its_renewal_fails_is_renewed_no_more() {
    let clock = clock();
    let (set, store) = flaky(&clock);
    let job = keep(&set);
    let asked = store.asked();
    store.is(Mood::Away);
    store.takes(&clock, TTL);
    clock.advance(TTL / 3);
    let lost = job.lost().wait();
    assert!(matches!(lost, Some(Loss::NotRenewed(_))), "{lost:?}");
    until(|| clock.next_alarm().is_none());
    assert_eq!(store.asked(), asked + 1);
}
