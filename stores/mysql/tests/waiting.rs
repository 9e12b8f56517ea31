//! Who waits comes up in order of arrival, in whatever process; and the server's
//! own locks.

mod support;

use std::sync::Mutex;
use std::time::Duration;

use support::{Desk, ask, machine_time, number, open, plan, slots};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_contract::{Ending, StoreError};
use tidegate_mysql::Clock;

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime")
}

/// Each waits on a store of its own, as in a process of its own, for the one slot
/// there is.
#[test]
fn who_waits_on_one_slot_gets_it_in_order_of_arrival() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    const WAITERS: usize = 6;
    const GRANTS: usize = 5;
    let stores: Vec<_> = (0..WAITERS).map(|_| open(&server, Clock::Server)).collect();
    let arrival = Mutex::new(0_usize);
    let granted = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (waiter, store) in stores.iter().enumerate() {
            let (arrival, granted) = (&arrival, &granted);
            scope.spawn(move || {
                let (runtime, line) = (runtime(), store.line("t").expect("a line"));
                let mut desk = Desk::at(store, "t", plan(0, 1, &[(0, slots(1))]), machine_time());
                desk.leases = (waiter as u128) << 64;
                for _ in 0..GRANTS {
                    // One arrives after the other, so that the order is known.
                    let mut arrived = arrival.lock().expect("no one panicked");
                    let place = runtime
                        .block_on(line.stand(b"k", PATIENCE))
                        .expect("a place");
                    let turn = *arrived;
                    *arrived += 1;
                    drop(arrived);
                    runtime.block_on(place.turn()).expect("a turn");
                    let lease = desk.lease(b"k", &[1], 600_000_000).lease.expect("its turn");
                    granted.lock().expect("no one panicked").push(turn);
                    desk.end(b"k", lease.id, Ending::Release).expect("held");
                    drop(place);
                }
            });
        }
    });
    let granted = granted.into_inner().expect("no one panicked");
    assert_eq!(granted, (0..WAITERS * GRANTS).collect::<Vec<_>>());
}

#[test]
fn a_waiter_that_is_not_heard_of_loses_its_place_and_the_line_goes_on() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let (store, runtime) = (open(&server, Clock::Server), runtime());
    let line = store.line("t").expect("a line");
    let first = runtime
        .block_on(line.stand(b"k", PATIENCE))
        .expect("a place");
    let second = runtime
        .block_on(line.stand(b"k", PATIENCE))
        .expect("a place");
    let other = runtime
        .block_on(line.stand(b"other", PATIENCE))
        .expect("a place");
    runtime.block_on(other.turn()).expect("another key's line");
    // As if its process had been killed long ago.
    ask(
        &server,
        "UPDATE tidegate_waiters SET until = 1 ORDER BY number LIMIT 1",
    );
    runtime.block_on(second.turn()).expect("it has come up");
    let lost = runtime.block_on(first.turn());
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    drop((first, second));
    let third = runtime
        .block_on(line.stand(b"k", PATIENCE))
        .expect("a place");
    runtime.block_on(third.turn()).expect("the line is empty");
    drop((third, other));
    while number(&server, "SELECT COUNT(*) FROM tidegate_waiters") > 0 {}
}

/// A holder says that it is there, for longer than its place would be kept.
#[test]
fn a_place_is_kept_for_as_long_as_its_holder_is_there() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let (store, runtime) = (open(&server, Clock::Server), runtime());
    let line = store.line("t").expect("a line");
    let place = runtime
        .block_on(line.stand(b"k", Duration::from_secs(6)))
        .expect("a place");
    let until = || number(&server, "SELECT until FROM tidegate_waiters");
    let at_first = until();
    while until() == at_first {}
    runtime.block_on(place.turn()).expect("still in line");
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
    for id in ask(
        &server,
        "SELECT id FROM information_schema.processlist WHERE id <> connection_id()",
    ) {
        ask(&server, &format!("KILL {id}"));
    }
    let free_again = runtime.block_on(one.lock("name", PATIENCE));
    assert!(free_again.expect("an answer").is_some());
    assert!(!runtime.block_on(held.is_held()).unwrap_or(false));
}
