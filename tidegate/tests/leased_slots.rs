//! Slots that a set in a tier holds and gives out.
#![cfg(feature = "memory")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{Algorithm, BuildError, Limit, LimitSet, ManualClock, Tier, TierError};

/// No window ends while a test runs.
const LONG: Duration = Duration::from_secs(300 * 86_400);

fn window(name: &str) -> Limit {
    Limit::calls(name, 100, LONG).algorithm(Algorithm::FixedWindow)
}

/// What a request was answered by now.
fn told<T>(request: &mut Pin<Box<dyn Future<Output = T> + '_>>) -> Option<T> {
    match request
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[test]
fn a_slot_that_comes_back_goes_to_the_request_that_has_waited_at_the_store() {
    let clock = ManualClock::default();
    let tier = Tier::leased(1).batch_of("slots", 2).low_water(0);
    let set = LimitSet::builder()
        .limit(Limit::concurrency("slots", 4))
        .clock(clock.clock())
        .tier(tier)
        .build()
        .expect("a set");
    let take = || {
        let taken = set.try_acquire("k", ()).wait().expect("an answer");
        taken.granted()
    };
    let mut leases: Vec<_> = (0..4).filter_map(|_| take()).collect();
    assert_eq!(leases.len(), 4);
    assert!(leases.iter().all(|lease| lease.fence().is_none()));
    let mut first: Pin<Box<dyn Future<Output = _>>> = Box::pin(set.acquire("k", ()));
    let mut second: Pin<Box<dyn Future<Output = _>>> = Box::pin(set.acquire("k", ()));
    assert!(told(&mut first).is_none() && told(&mut second).is_none());
    // Nobody who comes later is first.
    assert!(take().is_none());
    leases.remove(0).release().wait().expect("it is held");
    let given = told(&mut first).expect("its turn").expect("an answer");
    let given = given.granted().expect("the slot");
    assert!(given.fence().is_some() && told(&mut second).is_none());
    leases.remove(0).release().wait().expect("it is held");
    drop(told(&mut second).expect("its turn").expect("an answer"));
    assert!(take().expect("a slot").fence().is_some());
    // After a while without a refusal the node gives slots out again.
    clock.advance(Duration::from_secs(2));
    assert!(take().expect("a slot").fence().is_none());
}

#[test]
fn a_lease_of_a_node_is_kept_alive_settled_and_found_ended_as_any() {
    let clock = ManualClock::default();
    let set = LimitSet::builder()
        .limit(Limit::concurrency("slots", 9))
        .limit(window("calls"))
        .clock(clock.clock())
        .tier(Tier::leased(10).batch_of("slots", 3).low_water(0))
        .build()
        .expect("a set");
    let take = || {
        let taken = set.try_acquire("k", ()).wait().expect("an answer");
        taken.granted().expect("a slot")
    };
    let mut lease = take();
    assert!(lease.fence().is_none() && lease.is_held());
    let minute = Duration::from_secs(60);
    for _ in 0..10 {
        clock.advance(Duration::from_secs(40));
        lease.renew(minute).wait().expect("it is held");
        assert!(lease.is_held());
    }
    let id = lease.id();
    lease.settle(&[("calls", 0)]).wait().expect("it is held");
    assert!(set.settle("k", id, ()).wait().is_err());
    clock.advance(Duration::from_secs(5));
    let peeked = set.peek("k", ()).wait().expect("an answer");
    assert_eq!(
        (peeked.remaining("slots"), peeked.remaining("calls")),
        (Some(9), Some(100))
    );
    let dropped = take();
    let id = dropped.id();
    drop(dropped);
    assert!(set.renew("k", id, minute).wait().is_err());
}

#[test]
fn a_mutex_is_in_no_tier_of_leases() {
    let set = LimitSet::builder().limit(Limit::concurrency("mutex", 1));
    let built = set.tier(Tier::leased(1).batch_of("mutex", 2)).build();
    assert!(matches!(
        built.err(),
        Some(BuildError::Tier(TierError::CannotLease(name, _))) if name == "mutex"
    ));
}
