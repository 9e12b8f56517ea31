//! The tower layer: a permit around a service's work, and what its answer says.

use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::adaptive::{AdaptiveLimit, AdaptivePermit, Estimator};
use tidegate::tower::{AdaptiveLayer, LayerError, Share};
use tidegate::{Limit, LimitSet, ManualClock, OnFailure, Outcome};
use tower::{Layer, Service, ServiceExt, service_fn};

const HOUR: Duration = Duration::from_secs(3_600);

fn limit(clock: &ManualClock, slots: u64) -> AdaptiveLimit {
    let tokens = Limit::budget("tokens", 100, HOUR).on_failure(OnFailure::Refund);
    let limits = [Limit::concurrency("up", 1).adaptive(), tokens];
    let set = LimitSet::builder().limits(limits).clock(clock.clock());
    let estimator = Estimator::aimd(Duration::from_secs(1)).starting_at(slots);
    AdaptiveLimit::new(set.build().expect("sensible limits"), "up", estimator)
        .expect("an adaptive limit")
}

/// The answer as a status; a first token after 10 ms, whatever comes later.
fn judge(permit: &mut AdaptivePermit, answer: &Result<u16, &'static str>) -> Outcome {
    permit.measured(Duration::from_millis(10));
    match answer {
        Ok(200) => Outcome::Succeeded,
        Ok(429) => Outcome::Dropped,
        _ => Outcome::Ignored,
    }
}

fn service<A: Future<Output = Result<u16, &'static str>> + Send + 'static>(
    limit: AdaptiveLimit,
    work: impl Fn() -> A + Clone + Send + 'static,
) -> impl Service<u64, Response = u16, Error = LayerError<&'static str>> + Clone {
    let share = |cost: &u64| Share::of("k").cost(*cost);
    AdaptiveLayer::new(limit, share, judge).layer(service_fn(move |_| work()))
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn now<F: Future>(future: F) -> F::Output {
    match poll(pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

fn left(limit: &AdaptiveLimit) -> [u64; 2] {
    let peek = limit.set().peek("k", 1).wait().expect("an answer");
    ["up", "tokens"].map(|limit| peek.remaining(limit).expect("there"))
}

#[test]
fn an_answer_moves_the_limit_as_it_is_judged() {
    for (status, learnt) in [(200, 3), (429, 1), (400, 2)] {
        let limit = limit(&ManualClock::default(), 2);
        let service = service(limit.clone(), move || ready(Ok(status)));
        assert_eq!(now(service.oneshot(5)).expect("it fits"), status);
        assert_eq!(limit.limit(), learnt, "after {status}");
        let tokens = if status == 429 { 100 } else { 95 };
        assert_eq!(left(&limit), [learnt, tokens]);
    }
}

#[test]
fn the_signal_is_the_one_that_was_measured() {
    let clock = ManualClock::default();
    let limit = limit(&clock, 2);
    let service = service(limit.clone(), move || {
        clock.advance(HOUR / 60);
        ready(Ok(200))
    });
    assert_eq!(now(service.oneshot(5)).expect("it fits"), 200);
    assert_eq!(limit.limit(), 3);
}

#[test]
fn an_error_of_the_service_is_work_that_failed_whatever_is_made_of_it() {
    let limit = limit(&ManualClock::default(), 2);
    let service = service(limit.clone(), || ready(Err("no such item")));
    let error = now(service.oneshot(5));
    assert!(matches!(error, Err(LayerError::Service("no such item"))));
    assert_eq!((limit.limit(), left(&limit)), (2, [2, 100]));
}

#[test]
fn a_request_beyond_the_limit_does_not_reach_the_service() {
    let limit = limit(&ManualClock::default(), 2);
    let service = service(limit.clone(), std::future::pending);
    let mut first = pin!(service.clone().oneshot(1));
    let mut second = Box::pin(service.clone().oneshot(1));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    match now(service.clone().oneshot(1)) {
        Err(LayerError::Refused { decision, .. }) => assert_eq!(decision.binding(), Some("up")),
        other => panic!("{other:?}"),
    }
    // Its caller went away: that says nothing of the service.
    drop(second);
    assert_eq!((limit.limit(), left(&limit)[0]), (2, 1));
}
