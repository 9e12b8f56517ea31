//! What a permit says, and when a limit changes.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::adaptive::{AdaptiveLimit, AdaptivePermit, Estimator, Sample};
use tidegate::{
    Admission, BuildError, Limit, LimitSet, ManualClock, OnFailure, Outcome, Timestamp,
};

const SECOND: Duration = Duration::from_secs(1);

struct Subject {
    clock: ManualClock,
    limit: AdaptiveLimit,
}

/// A limit of 20 that goes by AIMD with a time-out of a second, beside a rate.
fn subject() -> Subject {
    let clock = ManualClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000));
    let tokens = Limit::budget("tokens", 1_000, 3_600 * SECOND).on_failure(OnFailure::Refund);
    let limits = [Limit::concurrency("up", 5).adaptive(), tokens];
    let set = LimitSet::builder().limits(limits).clock(clock.clock());
    let set = set.build().expect("sensible limits");
    let limit = AdaptiveLimit::new(set, "up", Estimator::aimd(SECOND));
    Subject {
        clock,
        limit: limit.expect("an adaptive limit"),
    }
}

impl Subject {
    fn take(&self, slots: u64) -> AdaptivePermit {
        let request = &[("up", slots), ("tokens", 100)];
        let admission = self.limit.try_acquire("k", request).wait();
        let permit = admission.expect("an answer").granted();
        permit.expect("it fits")
    }

    fn left(&self) -> u64 {
        let peek = self.limit.set().peek("k", 1).wait().expect("an answer");
        peek.remaining("tokens").expect("a budget")
    }
}

#[test]
fn a_limit_is_its_estimators_from_the_beginning() {
    let subject = subject();
    assert_eq!(subject.limit.limit(), 20);
    assert_eq!(subject.limit.set().capacity("up"), Some(20));
}

#[test]
fn a_permits_signal_is_the_time_it_was_held_and_its_limit_holds_from_then_on() {
    let subject = subject();
    let others = subject.take(9);
    let permit = subject.take(1);
    subject.clock.advance(SECOND);
    assert_eq!(permit.elapsed(), SECOND);
    permit.succeeded();
    assert_eq!(subject.limit.limit(), 21);
    assert_eq!(subject.limit.set().capacity("up"), Some(21));
    let late = subject.take(1);
    subject.clock.advance(SECOND + Duration::from_micros(1));
    late.succeeded();
    assert_eq!(subject.limit.set().capacity("up"), Some(18));
    drop(others);
}

#[test]
fn a_signal_that_was_measured_counts_instead() {
    let subject = subject();
    let mut permit = subject.take(10);
    permit.measured(permit.elapsed());
    subject.clock.advance(60 * SECOND);
    permit.succeeded();
    assert_eq!(subject.limit.limit(), 21);
}

#[test]
fn what_is_in_flight_is_what_the_store_holds() {
    let subject = subject();
    let nine = subject.take(9);
    nine.succeeded();
    assert_eq!(subject.limit.limit(), 20, "less than half of it was in use");
    // Held by others, who went another way.
    let held = subject
        .limit
        .set()
        .try_acquire("k", &[("up", 9), ("tokens", 0)]);
    let _held = held.wait().expect("an answer").granted().expect("it fits");
    subject.take(1).succeeded();
    assert_eq!(subject.limit.limit(), 21);
}

#[test]
fn a_permit_that_is_dropped_without_a_word_says_nothing_and_gives_back() {
    let subject = subject();
    drop(subject.take(20));
    subject.take(20).ignored();
    assert_eq!(subject.limit.limit(), 20);
    let panicked = std::thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let _permit = subject.take(20);
            std::panic::resume_unwind(Box::new(()));
        });
        holder.join()
    });
    assert!(panicked.is_err());
    subject.take(20).succeeded();
    assert_eq!(subject.limit.limit(), 21);
    let counted = subject.limit.set().statistics();
    assert_eq!(
        (counted.succeeded, counted.ignored, counted.dropped),
        (1, 2, 1)
    );
}

#[test]
fn work_that_was_dropped_lowers_the_limit_and_is_charged_as_its_limits_say() {
    let subject = subject();
    subject.take(1).succeeded();
    assert_eq!(subject.left(), 900);
    subject.take(1).dropped();
    assert_eq!(subject.limit.limit(), 18);
    assert_eq!(subject.left(), 900);
}

#[test]
fn a_permit_is_settled_for_what_was_used() {
    let subject = subject();
    let permit = subject.take(20);
    let settled = permit.settle(Outcome::Succeeded, &[("tokens", 30)]).wait();
    let settled = settled.expect("it is held");
    assert_eq!(settled.usage("tokens").map(|usage| usage.used), Some(30));
    assert_eq!((subject.limit.limit(), subject.left()), (21, 970));
    let mut permit = subject.take(1);
    permit
        .lease_mut()
        .adjust(&[("tokens", 200)])
        .wait()
        .expect("it is held");
    assert_eq!((permit.lease().key(), subject.left()), (&b"k"[..], 770));
}

/// The wait of a request that the new limit admits is none of its signal.
#[test]
fn a_request_that_waits_has_its_turn_when_the_limit_grows() {
    let subject = subject();
    let held = subject.take(19);
    let last = subject.take(1);
    let request = &[("up", 2), ("tokens", 1)];
    let mut waiting = pin!(subject.limit.acquire("k", request));
    let mut poll = || match waiting
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(answer) => Some(answer.expect("an answer")),
        Poll::Pending => None,
    };
    assert!(poll().is_none());
    subject.clock.advance(SECOND);
    last.succeeded();
    let permit = poll().and_then(Admission::granted).expect("21 of 21");
    assert_eq!(permit.elapsed(), Duration::ZERO);
    permit.succeeded();
    assert_eq!(subject.limit.limit(), 22);
    drop(held);
}

#[test]
fn samples_of_other_work_count_alike() {
    let subject = subject();
    let sample = Sample {
        at: Timestamp::from_micros(0),
        signal: SECOND,
        in_flight: 20,
        outcome: Outcome::Succeeded,
    };
    assert_eq!(subject.limit.observe(&sample), 21);
    assert_eq!(subject.limit.set().capacity("up"), Some(21));
}

#[test]
fn a_limit_that_is_gone_or_adaptive_no_more_is_left_as_it_is() {
    let subject = subject();
    let permit = subject.take(20);
    let fixed = Limit::concurrency("up", 5);
    subject
        .limit
        .set()
        .put_limit(fixed.clone())
        .expect("a sound limit");
    permit.succeeded();
    assert_eq!(subject.limit.set().capacity("up"), Some(5));
    subject
        .limit
        .set()
        .put_limit(fixed.adaptive())
        .expect("a sound limit");
    subject.take(1).ignored();
    assert_eq!(subject.limit.set().capacity("up"), Some(21), "it learns on");
    let permit = subject.take(1);
    subject
        .limit
        .set()
        .remove_limit("up")
        .expect("not the last");
    permit.dropped();
    assert_eq!(subject.limit.set().capacity("up"), None);
}

#[test]
fn a_limit_that_cannot_be_learnt_is_refused() {
    let limits = [
        Limit::concurrency("fixed", 4),
        Limit::calls("calls", 4, SECOND).adaptive(),
    ];
    let set = LimitSet::new(limits).expect("sensible limits");
    let error = |limit| {
        let made = AdaptiveLimit::new(set.clone(), limit, Estimator::default());
        made.map(|_| ()).expect_err("it cannot be learnt")
    };
    assert!(matches!(error("up"), BuildError::UnknownLimit { .. }));
    assert!(matches!(error("fixed"), BuildError::NotAdaptive(name) if name == "fixed"));
    assert_eq!(
        error("calls").to_string(),
        "limit `calls`: `estimator` does not go with what is charged and not held; leave it out"
    );
    assert_eq!(set.capacity("calls"), Some(4));
}

/// Threads that end work at once leave the set with the newest limit.
#[test]
fn the_set_has_the_newest_limit_whoever_ends_last() {
    let subject = subject();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for nth in 0..500 {
                    let admission = subject.limit.acquire("k", &[("up", 1)]).wait();
                    let permit = admission.expect("an answer").granted().expect("it waits");
                    match nth % 3 {
                        0 => permit.dropped(),
                        _ => permit.succeeded(),
                    }
                }
            });
        }
    });
    let limit = subject.limit.limit();
    assert_eq!(subject.limit.set().capacity("up"), Some(limit));
}

#[test]
fn what_was_dropped_tells_when_it_began_whatever_was_measured() {
    let subject = subject();
    let mut permits: Vec<_> = (0..4).map(|_| subject.take(1)).collect();
    for permit in &mut permits {
        permit.measured(SECOND / 2);
    }
    for permit in permits {
        subject.clock.advance(10 * SECOND);
        permit.dropped();
    }
    // All had begun before the first was lowered for.
    assert_eq!(subject.limit.limit(), 18);
}
