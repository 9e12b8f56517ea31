//! Who gives up, dies, or is cut off.

use std::sync::Arc;
use std::time::Duration;

use tidegate::StoreError;
use tidegate::{Admission, Algorithm, Clock, DecisionError, LeaseError, Limit, Request, Timestamp};

use super::{KEY, LONG, Lines, acquire, client, one_slot, process, run, until};

/// So often a waiter goes as its turn comes.
const ROUNDS: usize = 12;

/// Its patience ends, with the last refusal; or its future is dropped.
pub(super) fn who_gives_up_leaves_the_line_at_once<L: Lines>() {
    run(|server: Arc<L>| async move {
        let sets = [(); 2].map(|()| client(&*server, &one_slot()));
        let [one, other] = sets;
        let held = acquire(&one, LONG).await.expect("it is free");
        let soon = Request::default().cost(1).within(Duration::from_millis(20));
        let refused = other.acquire(KEY, soon).await.expect("an answer");
        let Admission::Refused(refusal) = refused else {
            panic!("there is one slot");
        };
        assert!(refusal.binding().is_some(), "{refusal:?}");
        assert_eq!(server.standing(), 0);
        let given_up = tokio::spawn(async move { acquire(&other, LONG).await });
        until(|| server.standing() == 1).await;
        given_up.abort();
        until(|| server.standing() == 0).await;
        drop(held);
        assert!(acquire(&one, LONG).await.is_some());
    });
}

/// It is not kept for its whole patience, unless it hopes for refunds.
pub(super) fn a_request_that_its_rates_cannot_admit_in_time_is_refused_at_once<L: Lines>() {
    run(|server: Arc<L>| async move {
        let day = Duration::from_secs(86_400);
        let limits = [
            Limit::budget("budget", 10, day).algorithm(Algorithm::FirstUseWindow),
            Limit::concurrency("slots", 4),
        ];
        let (one, other) = (client(&*server, &limits), client(&*server, &limits));
        let take = |cost, longest| Request::default().cost(cost).within(longest);
        let held = one.acquire(KEY, take(8, LONG)).await.expect("an answer");
        let mut held = held.granted().expect("it is free");
        // It would come minutes after the test has ended.
        let refused = tokio::time::timeout(LONG / 2, other.acquire(KEY, take(5, LONG))).await;
        let refused = refused.expect("at once").expect("an answer");
        let refused = refused.refused().expect("there are two left");
        assert_eq!(refused.binding(), Some("budget"));
        assert_eq!(server.standing(), 0);
        let waits = tokio::spawn(async move {
            let hopes = take(5, LONG).wait_for_refunds();
            other.acquire(KEY, hopes).await
        });
        until(|| server.standing() == 1).await;
        held.settle(&[("budget", 1)]).await.expect("it is held");
        let granted = waits.await.expect("it ends").expect("an answer");
        assert!(granted.granted().is_some());
    });
}

/// It goes at the moment at which it is granted, again and again: what nobody was
/// told of is there for the next.
pub(super) fn a_lease_whose_waiter_is_gone_is_given_back<L: Lines>() {
    run(|server: Arc<L>| async move {
        let (one, other) = (client(&*server, &one_slot()), client(&*server, &one_slot()));
        for round in 0..ROUNDS {
            let held = acquire(&one, LONG).await.expect("it is free");
            let other = other.clone();
            let waits = tokio::spawn(async move { acquire(&other, LONG).await });
            until(|| server.standing() == 1).await;
            drop(held);
            // Before the release has got there, with it, or after it.
            tokio::time::sleep(Duration::from_micros(400 * round as u64)).await;
            waits.abort();
            until(|| server.standing() == 0).await;
        }
        // A lease that was lost would last longer than the test.
        assert!(acquire(&one, LONG / 5).await.is_some());
    });
}

/// A set that is told to stop tells those who wait.
pub(super) fn who_waits_is_told_when_its_process_closes<L: Lines>() {
    run(|server: Arc<L>| async move {
        let (one, closes) = (client(&*server, &one_slot()), client(&*server, &one_slot()));
        let _held = acquire(&one, LONG).await.expect("it is free");
        let waits = {
            let set = closes.clone();
            tokio::spawn(async move { set.acquire(KEY, Request::default().within(LONG)).await })
        };
        until(|| server.standing() == 1).await;
        assert_eq!(closes.statistics().waiting, 1);
        closes.stop_waiting();
        let told = waits.await.expect("it ends");
        assert!(matches!(told, Err(DecisionError::Stopped)));
        until(|| server.standing() == 0).await;
        assert_eq!(closes.statistics().waiting, 0);
    });
}

/// What a loaded machine takes for the last of it: whoever is next asks once a second,
/// and is served then.
const LATE: Duration = Duration::from_secs(1 + 4);

/// A process that waits is killed: who stands behind it is served, no later than a
/// place is kept without a heartbeat. By the server's clock: a fence is the
/// microsecond of its grant.
pub(super) fn a_waiter_that_dies_loses_its_place_and_stops_nobody<L: Lines>() {
    run(|server: Arc<L>| async move {
        let (one, next) = (client(&*server, &one_slot()), client(&*server, &one_slot()));
        let held = acquire(&one, LONG).await.expect("it is free");
        let mut process = process("wait", &*server).spawn().expect("a process");
        until(|| server.standing() == 1).await;
        let waits = tokio::spawn(async move { acquire(&next, LONG).await });
        until(|| server.standing() == 2).await;
        process.kill().expect("it was there");
        process.wait().expect("it ends");
        let died = Clock::system().now();
        drop(held);
        let granted = waits.await.expect("it ends").expect("its turn has come");
        let granted = Timestamp::from_micros(granted.fence().unwrap_or(0) as i64);
        let delayed = granted.since(died).as_duration();
        println!("the next was served {delayed:?} after it died");
        assert!(delayed <= L::GIVEN_UP + LATE, "{delayed:?}");
    });
}

/// All connections are cut while somebody waits: it is served nonetheless.
pub(super) fn who_waits_is_cut_off_and_waits_on<L: Lines>() {
    run(|server: Arc<L>| async move {
        let (one, other) = (client(&*server, &one_slot()), client(&*server, &one_slot()));
        let held = acquire(&one, LONG).await.expect("it is free");
        let waits = tokio::spawn(async move { acquire(&other, LONG).await });
        until(|| server.standing() == 1).await;
        server.cut();
        let id = held.detach();
        // On a connection that is gone a release is an error, whether it was done
        // or not.
        while let Err(LeaseError::Store(StoreError::Unavailable(_))) = one.release(KEY, id).await {}
        assert!(waits.await.expect("it ends").is_some());
    });
}
