//! The tower layer: what is taken, held and given back around a service's work.
#![cfg(feature = "tower")]

use std::cell::Cell;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::tower::{LayerError, LimitLayer, LimitService, Share};
use tidegate::{Limit, LimitSet, ManualClock, OnFailure};
use tower::{Layer, Service, ServiceExt, service_fn};

const HOUR: Duration = Duration::from_secs(3_600);

type Answer = Pin<Box<dyn Future<Output = Result<u64, &'static str>> + Send>>;

fn set(time: &ManualClock) -> LimitSet {
    let failed = Limit::rate("tpm", 100, HOUR).on_failure(OnFailure::Refund);
    let limits = [failed, Limit::concurrency("running", 1)];
    let builder = LimitSet::builder().limits(limits).clock(time.clock());
    builder.build().expect("sensible limits")
}

fn left(set: &LimitSet) -> [u64; 2] {
    let now = set.peek("k", 1).wait().expect("a peek");
    ["tpm", "running"].map(|limit| now.standing(limit).expect("there").remaining)
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn now<F: Future>(future: F) -> F::Output {
    match poll(pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// A service that answers the cost itself, once it is told to.
fn service(
    set: LimitSet,
    wait: Duration,
    work: impl Fn(u64) -> Answer + Clone + Send + 'static,
) -> LimitService<
    impl Service<u64, Response = u64, Error = &'static str, Future = Answer> + Clone + Send,
    impl Fn(&u64) -> Share + Clone,
> {
    let share = move |cost: &u64| Share::of("k").cost(*cost).wait(wait).ttl(HOUR);
    LimitLayer::new(set, share).layer(service_fn(work))
}

#[test]
fn a_request_holds_its_slot_while_the_service_works_and_its_cost_is_charged() {
    let set = set(&ManualClock::default());
    let (inside, seen) = (set.clone(), Arc::new(Mutex::new(Cell::new([0; 2]))));
    let theirs = Arc::clone(&seen);
    let service = service(set.clone(), Duration::ZERO, move |cost| {
        theirs.lock().expect("no panic").set(left(&inside));
        Box::pin(async move { Ok(cost) })
    });
    assert_eq!(now(service.oneshot(30)).expect("it fits"), 30);
    assert_eq!(seen.lock().expect("no panic").get(), [70, 0]);
    assert_eq!(left(&set), [70, 1]);
}

#[test]
fn a_refused_request_does_not_reach_the_service_and_says_which_limit_and_when() {
    let set = set(&ManualClock::default());
    let service = service(set.clone(), Duration::ZERO, |_| panic!("it is not asked"));
    set.debit("k", 100).wait().expect("a debit");
    match now(service.oneshot(1)) {
        Err(error @ LayerError::Refused { .. }) => {
            let text = error.to_string();
            assert!(text.starts_with("refused by tpm; retry after "), "{text}");
            let LayerError::Refused { retry_after, .. } = error else {
                return;
            };
            assert_eq!(retry_after, Some(HOUR / 100));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_error_of_the_service_is_work_that_failed() {
    let set = set(&ManualClock::default());
    let service = service(set.clone(), Duration::ZERO, |_| {
        Box::pin(async { Err("it broke") })
    });
    let error = now(service.oneshot(30));
    assert!(matches!(error, Err(LayerError::Service("it broke"))));
    assert_eq!(left(&set), [100, 1]);
}

#[test]
fn a_request_waits_for_its_turn_and_one_that_is_dropped_takes_nothing() {
    let set = set(&ManualClock::default());
    let held = set.try_acquire("k", 1).wait().expect("no error").granted();
    let waits = HOUR;
    let service = service(set.clone(), waits, |cost| Box::pin(async move { Ok(cost) }));
    let mut first = Box::pin(service.clone().oneshot(10));
    let mut second = pin!(service.oneshot(20));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    drop(first);
    drop(held);
    assert!(matches!(poll(second.as_mut()), Poll::Ready(Ok(20))));
    assert_eq!(left(&set), [79, 1]);
}

/// A request whose work takes longer than its lease lasts.
#[test]
fn a_request_holds_its_slot_for_as_long_as_was_said_and_no_longer() {
    let time = ManualClock::default();
    let set = set(&time);
    let service = service(set.clone(), Duration::ZERO, |_| Box::pin(pending()));
    let mut long = pin!(service.oneshot(1));
    assert!(poll(long.as_mut()).is_pending());
    time.advance(HOUR - Duration::from_micros(1));
    assert_eq!(left(&set)[1], 0);
    time.advance(Duration::from_micros(1));
    assert!(poll(long.as_mut()).is_pending());
    assert_eq!(left(&set)[1], 1);
}
