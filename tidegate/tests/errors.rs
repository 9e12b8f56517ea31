//! Each operation has an error of its own, and all of them widen to one: what happened has
//! one place there, says the same, and means the same.

use std::fmt::Display;
use std::time::Duration;

use tidegate::lock::{LeasedMutex, LeasedSemaphore, LockError};
use tidegate::{
    BuildError, DecisionError, Error, ErrorKind, KeyError, LeaseEnd, LeaseError, Limit, LimitPool,
    LimitSet, ManualClock, RequestError, Span, StoreError, Timestamp,
};

/// Checks that `error` means `kind`, and is `wide` in the one error, in the same words.
#[track_caller]
fn widens<E: Into<Error> + Display>(error: E, kind: ErrorKind, wide: &Error) {
    let words = error.to_string();
    let one = error.into();
    assert_eq!((&one, one.kind()), (wide, kind));
    assert_eq!(one.to_string(), words);
}

#[test]
fn what_happened_has_one_place_in_the_one_error_whoever_says_it() {
    let away = || StoreError::Unavailable("no route".to_owned());
    let store = Error::Store(away());
    widens(away(), ErrorKind::Unavailable, &store);
    widens(BuildError::from(away()), ErrorKind::Unavailable, &store);
    widens(DecisionError::from(away()), ErrorKind::Unavailable, &store);
    widens(LeaseError::from(away()), ErrorKind::Unavailable, &store);
    widens(LockError::from(away()), ErrorKind::Unavailable, &store);

    let key = Error::Request(RequestError::Key(KeyError::Empty));
    widens(BuildError::from(KeyError::Empty), ErrorKind::Invalid, &key);

    let nothing = || RequestError::NothingRequested;
    let request = Error::Request(nothing());
    widens(nothing(), ErrorKind::Invalid, &request);
    widens(DecisionError::from(nothing()), ErrorKind::Invalid, &request);
    widens(LeaseError::from(nothing()), ErrorKind::Invalid, &request);
    widens(LockError::from(nothing()), ErrorKind::Invalid, &request);

    let at = Timestamp::from_micros(1);
    let by = LeaseEnd::By(at);
    let unknown = StoreError::UnknownLease;
    let ended = StoreError::LeaseEnded(at);
    assert_eq!(LeaseError::from(unknown.clone()), LeaseError::Unknown);
    assert_eq!(LeaseError::from(ended.clone()), LeaseError::Ended(by));
    for error in [unknown.into(), LeaseError::Unknown.into()] {
        widens::<Error>(error, ErrorKind::NotFound, &Error::UnknownLease);
    }
    for error in [ended.into(), LeaseError::Ended(by).into()] {
        widens::<Error>(error, ErrorKind::Ended, &Error::LeaseEnded(by));
    }
    let settled = || LeaseError::Ended(LeaseEnd::Settled);
    let wide = Error::LeaseEnded(LeaseEnd::Settled);
    widens(settled(), ErrorKind::Ended, &wide);
    widens(LockError::from(settled()), ErrorKind::Ended, &wide);

    let full = Error::QueueFull(7);
    widens(DecisionError::QueueFull(7), ErrorKind::Busy, &full);
    widens(LockError::QueueFull(7), ErrorKind::Busy, &full);
    widens(
        DecisionError::Stopped,
        ErrorKind::Unavailable,
        &Error::Stopped,
    );
    widens(LockError::Stopped, ErrorKind::Unavailable, &Error::Stopped);
    // A function that ends leases may ask for one, too: it is busy all the same.
    let busy = LeaseError::from(DecisionError::QueueFull(7));
    widens(LockError::from(busy.clone()), ErrorKind::Busy, &full);
    widens(busy, ErrorKind::Busy, &full);
    let stopped = LeaseError::from(DecisionError::Stopped);
    widens(
        LockError::from(stopped.clone()),
        ErrorKind::Unavailable,
        &Error::Stopped,
    );
    widens(stopped, ErrorKind::Unavailable, &Error::Stopped);
    let none = || "no memory".to_owned();
    let no_worker = Error::NoWorker(none());
    widens(
        BuildError::NoWorker(none()),
        ErrorKind::Unavailable,
        &no_worker,
    );
    widens(
        LeaseError::NoWorker(none()),
        ErrorKind::Unavailable,
        &no_worker,
    );
    widens(
        LockError::NoWorker(none()),
        ErrorKind::Unavailable,
        &no_worker,
    );
    let late = Error::WaitedTooLong(Duration::ZERO);
    widens(
        LockError::WaitedTooLong(Duration::ZERO),
        ErrorKind::Busy,
        &late,
    );
}

/// Settling can fail in three ways beside the store and a thread, and says which.
#[test]
fn who_settles_is_told_that_the_lease_has_ended_is_unknown_or_was_misnamed() {
    let time = ManualClock::default();
    let limit = Limit::concurrency("running", 2).ttl(Duration::from_secs(1));
    let set = LimitSet::builder().limit(limit).clock(time.clock()).build();
    let set = set.expect("a sound limit");
    let mut lease = set.try_acquire("k", ()).wait().unwrap().granted().unwrap();
    let misnamed = lease.settle(&[("runing", 1)]).wait().unwrap_err();
    assert!(matches!(
        misnamed,
        LeaseError::Request(RequestError::UnknownLimit { .. })
    ));
    assert_eq!(misnamed.kind(), ErrorKind::Invalid);
    let id = lease.id();
    lease.release().wait().expect("it is held");
    let ended = lease.settle(()).wait().unwrap_err();
    assert!(matches!(ended, LeaseError::Ended(_)));
    let unknown = set.settle("another", id, ()).wait().unwrap_err();
    assert_eq!(
        (&unknown, unknown.kind()),
        (&LeaseError::Unknown, ErrorKind::NotFound)
    );
}

/// A lease's holder is told what happened to it, and not when it would have expired.
#[test]
fn a_lease_that_has_ended_says_how_as_far_as_is_known() {
    let time = ManualClock::default();
    let limits = [
        Limit::concurrency("running", 4).ttl(Duration::from_secs(9)),
        Limit::rate("tokens", 9_000, Duration::from_secs(60)),
    ];
    let set = LimitSet::builder().limits(limits).clock(time.clock());
    let set = set.build().expect("sound limits");
    let hold = || set.try_acquire("k", 1).wait().unwrap().granted().unwrap();
    let told = |error: LeaseError| match &error {
        LeaseError::Ended(end) => (*end, error.to_string()),
        other => panic!("{other}"),
    };
    let ends = [
        (LeaseEnd::Settled, "settled"),
        (LeaseEnd::Released, "released"),
        (LeaseEnd::Cancelled, "cancelled"),
    ];
    for (end, word) in ends {
        let mut lease = hold();
        match end {
            LeaseEnd::Settled => lease.settle(1).wait(),
            LeaseEnd::Released => lease.release().wait(),
            _ => lease.cancel().wait(),
        }
        .expect("it is held");
        let words = format!("the lease is {word} already; acquire again");
        let expected = (end, words);
        assert_eq!(told(lease.settle(1).wait().unwrap_err()), expected);
        assert_eq!(told(lease.adjust(2).wait().unwrap_err()), expected);
        let renewed = lease.renew(Duration::from_secs(1)).wait();
        assert_eq!(told(renewed.unwrap_err()), expected);
    }

    let mut late = hold();
    let expiry = late.expires_at();
    time.advance(Duration::from_secs(20));
    let expired = LeaseEnd::Expired(expiry);
    assert_eq!(told(late.adjust(2).wait().unwrap_err()).0, expired);
    let renewed = late.renew(Duration::from_secs(1)).wait();
    let words = format!("the lease expired at {expiry}; acquire again");
    assert_eq!(told(renewed.unwrap_err()), (expired, words));
    let by_id = set.renew("k", late.id(), Duration::from_secs(1)).wait();
    let words = format!("the lease had ended by {expiry}; acquire again");
    let by = (LeaseEnd::By(expiry), words);
    assert_eq!(told(by_id.unwrap_err()), by);

    let mut revoked = hold();
    let at = revoked.granted_at();
    set.release("k", revoked.id()).wait().expect("it is held");
    let renewed = revoked.renew(Duration::from_secs(1)).wait();
    assert_eq!(told(renewed.unwrap_err()).0, LeaseEnd::By(at));
}

/// A permit of a leased lock that is given back too late says since when.
#[test]
fn a_permit_that_has_ended_says_how() {
    let start = Timestamp::from_micros(1_000_000);
    let time = ManualClock::starting_at(start);
    let lock = LeasedSemaphore::builder("m", 1).ttl(Duration::from_secs(9));
    let lock = lock.clock(time.clock()).build().expect("it has no store");
    let permit = lock.try_acquire().wait().unwrap().expect("it is free");
    time.advance(Duration::from_secs(60));
    // Its thread may have renewed it on the way.
    match permit.release().wait().unwrap_err() {
        LeaseError::Ended(LeaseEnd::Expired(at)) => assert!(at < start + Span::from_secs(60)),
        other => panic!("{other:?}"),
    }
    let permit = lock.try_acquire().wait().unwrap().expect("it is free");
    lock.release(permit.id()).wait().expect("it is held");
    let ended = permit.release().wait().unwrap_err();
    assert_eq!(
        ended,
        LeaseError::Ended(LeaseEnd::By(start + Span::from_secs(60)))
    );
}

/// `?` makes the error of each operation the one.
#[test]
fn a_function_that_does_several_things_has_one_error() {
    fn several(name: &str) -> Result<u64, Error> {
        let set = LimitSet::new([Limit::concurrency("running", 2)])?;
        let running = set.limit("running")?;
        let pool = LimitPool::builder().member("eu", set.clone()).build()?;
        pool.cool_down(name, Duration::from_secs(1))?;
        let handle = set.handle("k")?;
        if let Some(mut lease) = handle.try_acquire(&[(running, 1)]).wait()?.granted() {
            lease.settle(()).wait()?;
        }
        let held = LeasedMutex::builder("m").build()?.lock().wait()?;
        held.release().wait()?;
        Ok(set.count().wait()?.keys as u64)
    }
    assert!(several("eu").is_ok());
    let unknown = several("us").expect_err("there is no such member");
    assert!(matches!(&unknown, Error::UnknownMember(member) if member.known == "`eu`"));
    assert_eq!(unknown.kind(), ErrorKind::Invalid);
}
