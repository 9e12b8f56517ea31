//! Each operation has an error of its own, and all of them widen to one: what happened has
//! one place there, says the same, and means the same.

use std::fmt::Display;
use std::time::Duration;

use tidegate::lock::{LeasedMutex, LockError};
use tidegate::{
    BuildError, DecisionError, Error, ErrorKind, KeyError, LeaseError, Limit, LimitPool, LimitSet,
    ManualClock, RequestError, StoreError, Timestamp,
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

    let nothing = || RequestError::NothingAsked;
    let request = Error::Request(nothing());
    widens(nothing(), ErrorKind::Invalid, &request);
    widens(DecisionError::from(nothing()), ErrorKind::Invalid, &request);
    widens(LeaseError::from(nothing()), ErrorKind::Invalid, &request);
    widens(LockError::from(nothing()), ErrorKind::Invalid, &request);

    let at = Timestamp::from_micros(1);
    let unknown = StoreError::UnknownLease;
    let ended = StoreError::LeaseEnded(at);
    assert_eq!(LeaseError::from(unknown.clone()), LeaseError::Unknown);
    assert_eq!(LeaseError::from(ended.clone()), LeaseError::Ended(at));
    for error in [unknown.into(), LeaseError::Unknown.into()] {
        widens::<Error>(error, ErrorKind::NotFound, &Error::UnknownLease);
    }
    for error in [ended.into(), LeaseError::Ended(at).into()] {
        widens::<Error>(error, ErrorKind::Ended, &Error::LeaseEnded(at));
    }

    let full = Error::QueueFull(7);
    widens(DecisionError::QueueFull(7), ErrorKind::Busy, &full);
    widens(LockError::QueueFull(7), ErrorKind::Busy, &full);
    widens(
        DecisionError::Stopped,
        ErrorKind::Unavailable,
        &Error::Stopped,
    );
    widens(LockError::Stopped, ErrorKind::Unavailable, &Error::Stopped);
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
