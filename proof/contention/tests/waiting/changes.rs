//! Limits that change while somebody waits.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tidegate::{Clock, DecisionError, Limit, Request, RequestError};
use tidegate_conformance::fixture::{plan, slots};
use tidegate_core::{Align, Bounds, Rule, Span, Timestamp, Window};
use tidegate_store::{
    Command, Detail, Ending, KeyPath, Op, Out, Patience, Reply, Seat, StoreError, Terms, Verb,
};

use super::{KEY, LONG, Lines, SET, acquire, client, one_slot, opened, run, until};

/// The limits of the first in line are raised in its process: it is served by the
/// new ones without a release. Who stands behind it, in a process with the old
/// ones, keeps its place.
pub(super) fn who_waits_keeps_its_place_when_the_limits_change<L: Lines>() {
    run(|server: Arc<L>| async move {
        let (one, other) = (client(&*server, &one_slot()), client(&*server, &one_slot()));
        let held = acquire(&other, LONG).await.expect("it is free");
        let first = {
            let one = one.clone();
            tokio::spawn(async move { acquire(&one, LONG).await })
        };
        until(|| server.standing() == 1).await;
        let second = tokio::spawn(async move { acquire(&other, LONG).await });
        until(|| server.standing() == 2).await;
        let raised = Limit::concurrency("gpu", 2).ttl(2 * LONG);
        one.put_limit(raised).expect("a sound limit");
        let granted = first.await.expect("it ends").expect("two fit");
        assert_eq!(server.standing(), 1, "by its own limits it is refused");
        drop(held);
        drop(granted);
        assert!(second.await.expect("it ends").is_some());
    });
}

/// The first in line is given another capacity, which travels with its own commands: it
/// is served without a release.
pub(super) fn a_request_that_waits_goes_by_the_newest_capacity<L: Lines>() {
    run(|server: Arc<L>| async move {
        let limits = one_slot().map(Limit::adaptive);
        let (one, other) = (client(&*server, &limits), client(&*server, &limits));
        let _held = acquire(&other, LONG).await.expect("it is free");
        let first = {
            let one = one.clone();
            tokio::spawn(async move { acquire(&one, LONG).await })
        };
        until(|| server.standing() == 1).await;
        one.set_capacity("gpu", 2).expect("an adaptive limit");
        let granted = first.await.expect("it ends").expect("two fit");
        assert!(
            other
                .peek(KEY, ())
                .await
                .expect("an answer")
                .not_until()
                .is_some()
        );
        drop(granted);
    });
}

/// The limit that it waits for is renamed: it cannot ask again, and nobody stands behind
/// the place that it had.
pub(super) fn a_request_that_fits_no_newer_limit_leaves_the_line<L: Lines>() {
    run(|server: Arc<L>| async move {
        let (one, other) = (client(&*server, &one_slot()), client(&*server, &one_slot()));
        let held = acquire(&other, LONG).await.expect("it is free");
        let waiting = {
            let one = one.clone();
            tokio::spawn(async move {
                let named = [("gpu", 1)];
                one.acquire(KEY, Request::named(&named).within(LONG)).await
            })
        };
        until(|| server.standing() == 1).await;
        let renamed = Limit::concurrency("tpu", 5).ttl(2 * LONG);
        one.replace_limits(&[renamed]).expect("a sound limit");
        let answer = waiting.await.expect("it ends");
        assert!(matches!(
            answer,
            Err(DecisionError::Request(RequestError::UnknownLimit { .. }))
        ));
        until(|| server.standing() == 0).await;
        drop(held);
    });
}

/// A lease is granted to a request that nobody looks at any more, and the limits change
/// before its caller goes away: it comes back at once.
pub(super) fn what_a_request_was_granted_comes_back_though_the_limits_have_changed<L: Lines>() {
    run(|server: Arc<L>| async move {
        let (one, other) = (client(&*server, &one_slot()), client(&*server, &one_slot()));
        let held = acquire(&other, LONG).await.expect("it is free");
        let mut waits = Box::pin(acquire(&one, LONG));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        until(|| server.standing() == 1).await;
        drop(held);
        until(|| server.standing() == 0).await;
        let shorter = Limit::concurrency("gpu", 1).ttl(LONG);
        one.put_limit(shorter).expect("a sound limit");
        drop(waits);
        assert!(acquire(&other, LONG / 5).await.is_some());
    });
}

/// A request says today's and tomorrow's windows of its calendars. It waits for longer: it
/// is not counted in a window that is over.
pub(super) fn a_request_that_waits_for_longer_than_its_calendars_say_asks_again<L: Lines>() {
    run(|server: Arc<L>| async move {
        let (store, clock) = (opened(&*server), Clock::system());
        let budget = Rule::Window(Window::new(9, Align::Calendar).expect("a sound budget"));
        let plan = plan(0, 1, &[(0, budget), (0, slots(1))]);
        let table = store.open(SET, &plan).expect("the server");
        let (path, begun) = (KeyPath::new(KEY.as_bytes(), 1).expect("a key"), clock.now());
        let bounds = |from: Timestamp, length: Span| Bounds {
            start: begun,
            end: from + length,
            next_end: from + length + length,
        };
        let long = bounds(begun, Span::from_secs(600));
        let patience = Patience {
            for_refunds: false,
            turn: 7,
            ahead: Span::ZERO,
            longest: Some(LONG),
            since: begun,
            race: None,
            hold: None,
            retried: false,
            timer: Arc::new(clock.clone()),
            seat: Seat::default(),
        };
        let ask = |verb, calendar, patience| {
            let mut answer = Ok(Reply::Done);
            let command = Command {
                plan: &plan,
                now: clock.now(),
                calendars: &[Some(calendar), None],
                op: Op::One(path, verb),
                patience,
            };
            let later = table.execute(&command, Out::new(&mut answer)).pending();
            later.expect("a server is asked")
        };
        let take = |id| Verb::Take {
            amounts: &[1, 1],
            lease: Some(Terms {
                id,
                expires_at: begun + Span::from_secs(600),
                idempotency: None,
                least: None,
            }),
            detail: Detail::Verdict,
        };
        let granted = ask(take(1), long, None).await.expect("an answer");
        assert_eq!(granted.new_lease(), Some(1));
        let mut millis = 50;
        let (waits, over) = loop {
            let short = bounds(clock.now(), Span::from_micros(millis * 1_000));
            let waits = tokio::spawn(ask(take(2), short, Some(&patience)));
            until(|| server.standing() == 1 || waits.is_finished()).await;
            if !waits.is_finished() {
                break (waits, short.next_end);
            }
            // On a slow machine its calendars were over before it stood in the line.
            let answer = waits.await.expect("it ends");
            assert_eq!(answer.err(), Some(StoreError::StalePlan));
            millis *= 2;
        };
        let left = over.since(clock.now());
        tokio::time::sleep(Duration::from_micros(left.as_micros() + 1)).await;
        let (ending, remember) = (Ending::Release, false);
        let end = Verb::End {
            id: 1,
            ending,
            remember,
        };
        ask(end, long, None).await.expect("it is held");
        let answer = waits.await.expect("it ends");
        assert_eq!(answer.err(), Some(StoreError::StalePlan));
    });
}
