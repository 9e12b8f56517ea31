//! The server's own locks.

mod support;

use std::time::Duration;

use support::{open, sql};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::Clock;

const AT_ONCE: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_lock_is_one_holders_until_it_is_dropped() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (one, two) = (open(&server, Clock::Server), open(&server, Clock::Server));
    let held = one.lock("a name", AT_ONCE).expect("an answer");
    let held = held.expect("it is free");
    assert!(two.lock("a name", AT_ONCE).expect("an answer").is_none());
    assert!(one.lock("a name", AT_ONCE).expect("an answer").is_none());
    assert!(two.lock("another", AT_ONCE).expect("an answer").is_some());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| two.lock("a name", LONG).expect("an answer").is_some());
        assert!(held.is_held());
        drop(held);
        assert!(waits.join().expect("no panic"), "it is given on");
    });
}

#[test]
fn a_lock_outlives_the_store_that_it_was_taken_by() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let held = open(&server, Clock::Server).lock("a name", AT_ONCE);
    let held = held.expect("an answer").expect("it is free");
    let another = open(&server, Clock::Server);
    for _ in 0..3 {
        let taken = another.lock("a name", Duration::from_millis(200));
        assert!(taken.expect("an answer").is_none());
    }
    assert!(held.is_held());
    drop(held);
    assert!(another.lock("a name", LONG).expect("an answer").is_some());
}

#[test]
fn a_lock_whose_connection_is_lost_is_free() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (one, two) = (open(&server, Clock::Server), open(&server, Clock::Server));
    let lost = one.lock("a name", AT_ONCE).expect("an answer");
    let lost = lost.expect("it is free");
    sql(
        &server,
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'",
    );
    let held = two.lock("a name", LONG).expect("an answer");
    assert!(held.expect("it is free again").is_held());
    let is_told = (0..1_000).any(|_| {
        sql(&server, "SELECT 1");
        !lost.is_held()
    });
    assert!(is_told);
}

#[test]
fn a_transaction_of_ones_own_takes_the_same_lock() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let held = store.lock("a name", AT_ONCE).expect("an answer");
    let asked = "SELECT pg_try_advisory_xact_lock(tidegate.lock_key('a name'))";
    assert_eq!(sql(&server, asked), ["f"]);
    drop(held);
    // The server sees a connection end when it comes to it.
    assert!((0..10_000).any(|_| sql(&server, asked) == ["t"]));
}
