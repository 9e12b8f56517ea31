//! Waiters are served in order: for slots and for rates, tasks and threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;

use proptest::prelude::*;
use tidegate::{Admission, DecisionError, Lease, Limit, LimitSet, ManualClock};

use crate::history::{cases, micros};

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Admission, DecisionError>> + 'a>>;

/// The lease, once its turn has come.
fn poll(waiting: &mut Waiting<'_>) -> Option<Lease> {
    match waiting
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(answer) => answer.expect("no error").granted(),
        Poll::Pending => None,
    }
}

/// Everyone waits, a little after the last; who is granted, in order, until
/// all were, while leases are held for `hold` microseconds.
fn served(set: &LimitSet, time: &ManualClock, asks: &[(u64, u64)], hold: u64) -> Vec<usize> {
    let mut waiting: Vec<Option<Waiting<'_>>> = Vec::new();
    let (mut order, mut held) = (Vec::new(), Vec::new());
    for tick in 0..100_000_u64 {
        if let Some(&(amount, gap)) = asks.get(waiting.len()) {
            time.advance(micros(gap));
            waiting.push(Some(Box::pin(set.acquire("k", amount))));
        } else {
            time.advance(micros(97));
        }
        held.retain(|(_, since)| tick - since < hold / 97);
        for (number, turn) in waiting.iter_mut().enumerate() {
            if let Some(lease) = turn.as_mut().and_then(poll) {
                *turn = None;
                order.push((lease.fence(), number));
                held.push((lease, tick));
            }
        }
        if order.len() == asks.len() {
            break;
        }
    }
    // Fences tell the order of grants within a tick; a rate has none.
    order.sort_by_key(|&(fence, _)| fence);
    order.into_iter().map(|(_, number)| number).collect()
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever is asked for and whenever: large asks are not overtaken.
    #[test]
    fn waiters_are_served_in_order_for_a_rate(
        asks in prop::collection::vec((1_u64..6, 0_u64..600), 1..25),
    ) {
        let time = ManualClock::default();
        let limit = Limit::rate("r", 5, micros(1_000));
        let set = LimitSet::builder().limit(limit).clock(time.clock()).build().unwrap();
        let order = served(&set, &time, &asks, 0);
        prop_assert_eq!(order, (0..asks.len()).collect::<Vec<_>>());
    }

    #[test]
    fn waiters_are_served_in_order_for_slots(
        asks in prop::collection::vec((1_u64..6, 0_u64..600), 1..25), hold in 1_u64..2_000,
    ) {
        let time = ManualClock::default();
        let limits = [Limit::concurrency("slots", 2), Limit::rate("r", 90, micros(1_000))];
        let set = LimitSet::builder().limits(limits).clock(time.clock()).build().unwrap();
        let order = served(&set, &time, &asks, hold);
        prop_assert_eq!(order, (0..asks.len()).collect::<Vec<_>>());
    }
}

/// Each comes to stand in line by itself, and waits on a thread of its own.
#[test]
fn waiters_are_served_in_order_on_threads() {
    let set = LimitSet::new([Limit::concurrency("slots", 1)]).unwrap();
    let held = set.try_acquire("k", ()).wait().unwrap().granted();
    let (sender, receiver) = mpsc::sync_channel(64);
    let threads: Vec<_> = (0..24)
        .map(|number| {
            let (theirs, sender) = (set.clone(), sender.clone());
            let turn = async move { theirs.acquire("k", ()).await };
            let mut turn: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(turn);
            let polled = turn.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                let lease = runtime.unwrap().block_on(turn);
                sender.send(number).unwrap();
                drop(lease);
            })
        })
        .collect();
    drop(held);
    threads.into_iter().for_each(|t| t.join().unwrap());
    let order: Vec<i32> = receiver.try_iter().collect();
    assert_eq!(order, (0..24).collect::<Vec<_>>());
}
