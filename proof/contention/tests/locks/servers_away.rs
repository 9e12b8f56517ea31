//! A server that goes away: the holder learns in time, and the slots go on when
//! it is back.

use std::time::Duration;

use tidegate::Clock;
use tidegate::Loss;
use tidegate::StoreError;
use tidegate::lock::LockError;
use tidegate_conformance::redis_server::{RedisServer, RedisService};

use crate::holders::{LONG, acquire, is_full};
use crate::servers::{hasty, on_each, semaphore};

/// How much later a loaded machine may tell it.
const SLACK: Duration = Duration::from_secs(5);

/// The stores' own deadline is a minute here: it is by the holder's clock alone
/// that it learns.
#[test]
fn a_holder_whose_server_is_away_learns_before_another_may_hold() {
    on_each(|server| {
        let (url, ttl) = (server.url(), Duration::from_secs(2));
        let gpus = semaphore(&url, 1, ttl);
        let permit = acquire(&gpus);
        let (fence, clock) = (permit.fence(), Clock::system());
        let paused = server.pause();
        let gone = clock.now();
        let loss = permit.lost().wait().expect("it is lost");
        let learned = clock.now().since(gone).as_duration();
        println!("{url}: away, and lost after {learned:?}: {loss}");
        assert!(matches!(loss, Loss::NotRenewed(_)), "{loss:?}");
        assert!(clock.now() >= permit.sure_until());
        assert!(permit.sure_until().since(gone).as_duration() <= ttl);
        drop(paused);
        let others = semaphore(&url, 1, LONG);
        // It may still hold what it is not sure of, and gives that back, too.
        drop(permit);
        assert!(acquire(&others).fence() > fence);
    });
}

/// Nobody is told anything while it hangs, and nobody waits for longer than he wants to.
/// When it goes on, the holder still holds, and who waits is served after it.
#[test]
fn a_server_that_hangs_for_less_than_the_ttl_costs_nobody_a_permit() {
    const SECOND: Duration = Duration::from_secs(1);
    on_each(|server| {
        let url = server.url();
        let (gpus, others) = (semaphore(&url, 1, LONG), semaphore(&url, 1, LONG));
        let hasty = hasty(&url, 1, LONG, SECOND);
        let permit = acquire(&gpus);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| acquire(&others));
            until(|| others.set().statistics().waiting == 1);
            // It stands in line by then, or is about to.
            assert!(is_full(&gpus));
            let (paused, clock) = (server.pause(), Clock::system());
            let asked = clock.now();
            let told = hasty.acquire_within(SECOND).wait().err();
            let took = clock.now().since(asked).as_duration();
            println!("{url}: hangs; told so after {took:?}");
            let unknown = matches!(told, Some(LockError::Store(StoreError::Unavailable(_))));
            assert!(unknown, "{url}: {told:?}");
            assert!(took < SECOND + SECOND + SLACK, "{url}: {took:?}");
            assert!(permit.is_held(), "{url}");
            drop(paused);
            until(|| permit.confirm().wait().is_ok());
            assert_eq!(permit.loss(), None, "{url}");
            assert!(is_full(&gpus) && !waits.is_finished(), "{url}: it is held");
            let fence = permit.fence();
            permit.release().wait().expect("held to the end");
            let next = waits.join().expect("it ends");
            assert!(next.fence() > fence && is_full(&gpus), "{url}");
        });
    });
}

#[test]
fn a_restart_within_the_ttl_costs_nobody_a_permit() {
    on_each(|server| {
        let url = server.url();
        let (gpus, others) = (semaphore(&url, 1, LONG), semaphore(&url, 1, LONG));
        let permit = acquire(&gpus);
        server.kill();
        server.start_again();
        until(|| permit.confirm().wait().is_ok());
        assert_eq!(permit.loss(), None, "{url}");
        until(|| others.available().wait().is_ok());
        assert!(is_full(&others));
        let fence = permit.fence();
        permit.release().wait().expect("held to the end");
        assert!(acquire(&others).fence() > fence);
    });
}

/// What is written in docs/reference/locks.md of it: two may hold at once, for as long as
/// the first does not know; its fence is smaller.
#[test]
fn a_redis_that_keeps_nothing_forgets_permits_and_their_holders_learn() {
    let Some(mut server) = RedisServer::start() else {
        return;
    };
    let ttl = Duration::from_secs(6);
    let (gpus, others) = (
        semaphore(&server.url(), 1, ttl),
        semaphore(&server.url(), 1, LONG),
    );
    let permit = acquire(&gpus);
    server.kill();
    server.start_again();
    let next = acquire(&others);
    assert!(next.fence() > permit.fence(), "by the server's clock");
    let loss = permit.lost().wait().expect("it is lost");
    println!("forgotten: {loss}");
    assert!(matches!(loss, Loss::Forgotten | Loss::NotRenewed(_)));
}

/// The replica may have seen the grant or not. Whoever holds afterwards has the
/// larger fence.
#[test]
fn after_a_failover_a_permit_is_kept_or_its_holder_learns() {
    let Some(mut service) = RedisService::start() else {
        return;
    };
    let gpus = semaphore(&service.url(), 1, LONG);
    let permit = acquire(&gpus);
    service.kill_master();
    let is_kept = loop {
        if let Ok(is_kept) = permit.confirm().wait() {
            break is_kept;
        }
    };
    let others = semaphore(&service.url(), 1, LONG);
    assert_eq!(is_full(&others), is_kept);
    let fence = permit.fence();
    match is_kept {
        true => permit.release().wait().expect("held to the end"),
        false => assert_eq!(permit.loss(), Some(Loss::Forgotten)),
    }
    assert!(acquire(&others).fence() > fence);
    println!("kept: {is_kept}");
}

/// A store needs a moment to notice that its connections are gone.
fn until(holds: impl Fn() -> bool) {
    while !holds() {}
}
