//! Who loses its place in the line; and the server's own locks.

mod support;

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use support::{Fixture, hourly, machine_time, number, open, options, plan};
use tidegate::{Limit, LimitSet, Request};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_mysql::{Clock, MysqlStore, Options};

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two stand in line for a slot; the server forgets both, as if they had stood still
/// for too long. They have places again, and are served.
#[test]
fn who_has_lost_its_place_takes_another() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let slot = || Limit::concurrency("slot", 1);
    let set = |store| LimitSet::builder().name("t").limit(slot()).store(store);
    let store = Arc::new(open(&server, Clock::Server));
    let set = set(store).build().expect("sound");
    let held = set
        .try_acquire("k", Request::default())
        .wait()
        .expect("an answer");
    let mut held = held.granted().expect("it is free");
    let standing = || number(&server, "SELECT COUNT(*) FROM tidegate_turns");
    std::thread::scope(|scope| {
        let wait = || {
            let granted = set.acquire("k", Request::default().within(PATIENCE));
            let mut lease = granted
                .wait()
                .expect("an answer")
                .granted()
                .expect("its turn");
            lease.release().wait().expect("held");
        };
        let waiting = [scope.spawn(wait), scope.spawn(wait)];
        while standing() < 2 {}
        server.ask("DELETE FROM tidegate_turns");
        while standing() < 2 {}
        held.release().wait().expect("held");
        for one in waiting {
            one.join().expect("served");
        }
    });
    assert_eq!(standing(), 0);
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime")
}

#[test]
fn a_native_lock_has_one_holder_until_it_is_released_or_its_connection_ends() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let (one, other) = (open(&server, Clock::Server), open(&server, Clock::Server));
    let runtime = runtime();
    let none = Duration::ZERO;
    let mut held = runtime
        .block_on(one.lock("name", none))
        .expect("an answer")
        .expect("free");
    assert!(runtime.block_on(held.is_held()).expect("an answer"));
    assert!(
        runtime
            .block_on(other.lock("name", none))
            .expect("an answer")
            .is_none()
    );
    assert!(
        runtime
            .block_on(other.lock("another", none))
            .expect("an answer")
            .is_some()
    );
    runtime.block_on(held.release()).expect("an answer");
    let mut held = runtime
        .block_on(other.lock("name", none))
        .expect("an answer")
        .expect("free");
    for id in
        server.ask("SELECT id FROM information_schema.processlist WHERE id <> connection_id()")
    {
        server.ask(&format!("KILL {id}"));
    }
    let free_again = runtime.block_on(one.lock("name", PATIENCE));
    assert!(free_again.expect("an answer").is_some());
    assert!(!runtime.block_on(held.is_held()).unwrap_or(false));
}

/// The server hangs up on whoever says nothing for too long, but not on who holds a lock.
#[test]
fn a_native_lock_outlives_the_servers_patience_with_who_says_nothing() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    server.ask("SET GLOBAL wait_timeout = 2");
    let store = open(&server, Clock::Server);
    let runtime = runtime();
    let held = runtime.block_on(store.lock("name", Duration::ZERO));
    let mut held = held.expect("an answer").expect("free");
    server.ask("DO SLEEP(5)");
    assert!(runtime.block_on(held.is_held()).expect("an answer"));
    runtime.block_on(held.release()).expect("an answer");
    let again = runtime.block_on(store.lock("name", Duration::ZERO));
    assert!(again.expect("an answer").is_some());
}

/// Each lock that was held, or waited for, had one of the store's connections: a few of
/// them, and every decision was told that all are busy.
#[test]
fn native_locks_keep_no_connection_from_decisions() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let options = Options {
        connections: 1,
        ..options(Clock::Server)
    };
    let store = MysqlStore::open(&server.url(), options).expect("a server");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(10))]), machine_time());
    let runtime = runtime();
    let held = runtime.block_on(store.lock("name", Duration::ZERO));
    let held = held.expect("an answer").expect("free");
    assert!(fixture.admits(b"k", &[1]));
    let mut waits = std::pin::pin!(store.lock("name", PATIENCE));
    assert!(waits.as_mut().poll(&mut nobody()).is_pending());
    assert!(fixture.admits(b"k", &[1]));
    runtime.block_on(held.release()).expect("an answer");
    let taken = runtime.block_on(waits).expect("an answer");
    assert!(taken.is_some(), "it is free again");
}

/// Whoever asks whether it is held, and does not wait for the answer, holds it still.
#[test]
fn a_native_lock_outlives_a_question_that_nobody_waits_for() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let (one, other) = (open(&server, Clock::Server), open(&server, Clock::Server));
    let runtime = runtime();
    let held = runtime.block_on(one.lock("name", Duration::ZERO));
    let mut held = held.expect("an answer").expect("free");
    for _ in 0..20 {
        let asked = std::pin::pin!(held.is_held());
        let _ = asked.poll(&mut nobody());
    }
    assert!(runtime.block_on(held.is_held()).expect("an answer"));
    let taken = runtime.block_on(other.lock("name", Duration::ZERO));
    assert!(taken.expect("an answer").is_none());
    drop(held);
    let taken = runtime.block_on(other.lock("name", PATIENCE));
    assert!(taken.expect("an answer").is_some());
}

fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}
