//! Capacities that travel with commands: a set gives its adaptive limits another one as
//! often as it likes.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{Admission, BuildError, DecisionError, Limit, LimitSet, ManualClock};

fn upstream(time: &ManualClock) -> LimitSet {
    let limits = [
        Limit::concurrency("slots", 4).adaptive(),
        Limit::budget("tokens", 1_000, Duration::from_secs(60)).adaptive(),
    ];
    let set = LimitSet::builder().limits(limits).clock(time.clock());
    set.build().expect("a sensible set")
}

fn standing(set: &LimitSet, key: &str, limit: &str) -> (u64, u64, u64) {
    let peek = set.peek(key, &[("tokens", 1)]).wait().expect("an answer");
    let standing = peek.standing(limit).expect("it is known");
    (standing.limit, standing.remaining, standing.debt)
}

#[test]
fn a_capacity_holds_from_the_next_decision_on_and_forgets_nothing() {
    let time = ManualClock::default();
    let set = upstream(&time);
    let request = &[("slots", 3), ("tokens", 700)];
    let lease = set.try_acquire("k", request).wait().expect("an answer");
    let lease = lease.granted().expect("it fits");
    set.set_capacity("tokens", 500).expect("an adaptive limit");
    set.set_capacity("slots", 2).expect("an adaptive limit");
    assert_eq!(set.capacity("tokens").expect("it is known"), 500);
    assert_eq!(standing(&set, "k", "tokens"), (500, 0, 200));
    assert_eq!(standing(&set, "k", "slots"), (2, 0, 1));
    for capacity in 501..10_000 {
        set.set_capacity("tokens", capacity).expect("in range");
    }
    assert_eq!(standing(&set, "k", "tokens"), (9_999, 9_299, 0));
    drop(lease);
    assert_eq!(standing(&set, "k", "slots"), (2, 2, 0));
}

#[test]
fn a_capacity_outlives_a_change_of_the_limits() {
    let time = ManualClock::default();
    let set = upstream(&time);
    set.set_capacity("tokens", 50).expect("an adaptive limit");
    set.put_limit(Limit::calls("calls", 9, Duration::from_secs(1)))
        .expect("a sound limit");
    assert_eq!(standing(&set, "k", "tokens").0, 50);
    let anew = Limit::budget("tokens", 2_000, Duration::from_secs(60));
    set.put_limit(anew.clone()).expect("a sound limit");
    assert_eq!(standing(&set, "k", "tokens").0, 2_000, "adaptive no more");
    set.put_limit(anew.adaptive()).expect("a sound limit");
    assert_eq!(standing(&set, "k", "tokens").0, 2_000);
}

#[test]
fn a_capacity_is_refused_where_it_makes_no_sense() {
    let set = LimitSet::new([
        Limit::concurrency("slots", 4),
        Limit::concurrency("adaptive", 4).adaptive(),
    ]);
    let set = set.expect("a sensible set");
    let refused = set.set_capacity("slots", 3);
    assert!(matches!(refused, Err(BuildError::NotAdaptive(name)) if name == "slots"));
    let unknown = set.set_capacity("slot", 3);
    assert!(matches!(unknown, Err(BuildError::UnknownLimit { .. })));
    for capacity in [0, 1 << 53, u64::MAX] {
        let refused = set.set_capacity("adaptive", capacity);
        assert!(
            matches!(refused, Err(BuildError::Limit { .. })),
            "{capacity}"
        );
    }
    assert_eq!(set.capacity("adaptive").expect("it is known"), 4);
    // More than there is just now can never be granted just now, and says how much is.
    set.set_capacity("adaptive", 2).expect("in range");
    let too_much = set.try_acquire("k", &[("adaptive", 3)]).wait();
    let never = too_much.expect("an answer").refused().expect("a refusal");
    assert_eq!((never.is_never(), never.most_at_once()), (true, Some(2)));
}

fn poll<F: Future<Output = Result<Admission, DecisionError>>>(
    waiting: std::pin::Pin<&mut F>,
) -> Option<Admission> {
    match waiting.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(admission) => Some(admission.expect("an answer")),
        Poll::Pending => None,
    }
}

#[test]
fn requests_that_wait_go_by_the_newest_capacity_in_their_order() {
    let time = ManualClock::default();
    let set = upstream(&time);
    let request = &[("slots", 2)];
    let lease = set.try_acquire("k", &[("slots", 3)]).wait();
    let _held = lease.expect("an answer").granted().expect("it fits");
    let mut first = pin!(set.acquire("k", request));
    let mut second = pin!(set.acquire("k", request));
    assert!(poll(first.as_mut()).is_none());
    assert!(poll(second.as_mut()).is_none());
    set.set_capacity("slots", 5).expect("an adaptive limit");
    assert!(poll(second.as_mut()).is_none(), "nobody overtakes");
    let granted = poll(first.as_mut()).and_then(Admission::granted);
    let first = granted.expect("there is room for one more");
    set.set_capacity("slots", 2).expect("an adaptive limit");
    drop(first);
    assert!(poll(second.as_mut()).is_none(), "3 of 2 are held");
    set.set_capacity("slots", 6).expect("an adaptive limit");
    let granted = poll(second.as_mut()).and_then(Admission::granted);
    assert!(granted.is_some());
}

#[test]
fn a_handle_and_a_batch_go_by_the_newest_capacity() {
    let calls = Limit::calls("calls", 5, Duration::from_secs(3_600)).adaptive();
    let set = LimitSet::new([calls]).expect("a sensible set");
    let handle = set.handle("k").expect("a key");
    for _ in 0..5 {
        assert!(handle.admit(1).wait().expect("an answer").admitted());
    }
    assert!(!handle.admit(1).wait().expect("an answer").admitted());
    set.set_capacity("calls", 7).expect("an adaptive limit");
    assert!(handle.admit(1).wait().expect("an answer").admitted());
    let many = set.check_many([("k", ()), ("k", ())]);
    let many = many.wait().expect("an answer");
    let admitted = many
        .iter()
        .map(|one| one.as_ref().is_ok_and(|one| one.admitted()));
    assert!(admitted.eq([true, false]));
}
