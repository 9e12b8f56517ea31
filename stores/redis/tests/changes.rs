//! Limits that change while in use, and processes that do not agree on them.

mod support;

use support::{Fixture, hourly, machine_time, open, plan, rate};
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::Clock;
use tidegate_store::Store;

#[test]
fn processes_with_different_limits_go_on_by_their_own() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (one, two) = (open(&server, Clock::Server), open(&server, Clock::Server));
    let now = machine_time();
    let strict = Fixture::at(&one, "t", plan(0, 1, &[(0, hourly(10))]), now);
    let loose = Fixture::at(&two, "t", plan(0, 1, &[(0, hourly(20))]), now);
    for round in 1..=5 {
        assert!(strict.admits(b"k", &[1]));
        assert!(loose.admits(b"k", &[1]));
        assert_eq!(loose.left(b"k"), [20 - 2 * round]);
        assert_eq!(strict.left(b"k"), [10 - 2 * round]);
    }
    assert!(!strict.admits(b"k", &[1]));
    assert!(loose.admits(b"k", &[10]));
    assert!(!loose.admits(b"k", &[1]));
}

/// A key left alone while its limits changed three times, found by a process
/// that has seen none of it.
#[test]
fn a_row_is_carried_over_every_change_since_it_was_written() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let now = machine_time();
    let before = open(&server, Clock::Server);
    let fixture = Fixture::at(&before, "t", plan(0, 1, &[(0, hourly(10))]), now);
    assert!(fixture.admits(b"k", &[8]));
    drop(fixture);
    for (version, rule) in [(1, hourly(4)), (2, rate(1, 1_000_000)), (3, hourly(100))] {
        let store = open(&server, Clock::Server);
        Fixture::at(&store, "t", plan(version, 1, &[(0, rule)]), now);
    }
    let after = open(&server, Clock::Server);
    let last = after.last_plan("t").expect("an answer");
    let last = last.expect("the table is known");
    assert_eq!(last.version(), 3);
    let fixture = Fixture::at(&after, "t", plan(4, 1, &[(0, hourly(100))]), now);
    // Eight of ten were used, which a hundred counts as ten did; a few of them drain.
    let left = fixture.left(b"k")[0];
    assert!((92..=100).contains(&left), "{left}");
}
