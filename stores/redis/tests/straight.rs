//! What random commands meet seldom on the straight way of leases, and the ends of its keys.

mod support;

use support::{Fixture, KEEP, SECOND, ask, connect, machine_time, open, plan, rate, slots};
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::Clock;
use tidegate_store::core::{Align, Rule, Span, Timestamp, Window};
use tidegate_store::{Ending, Verb};

const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// A row until it equals "never seen", leases for as long as they are remembered: each is
/// kept a while longer, so that its end is not moved with each call, and never less long.
#[test]
fn the_keys_of_plain_leases_have_an_end() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, rate(1, 100)), (0, slots(9))];
    let mut fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    let mut connection = connect(&server);
    let mut ends = |key: &str| -> i64 { ask(&mut connection, &["PEXPIRETIME", key]) };
    let keep = KEEP.as_micros() / 1_000;
    // The second lease is granted while the keys are kept for long enough.
    for seconds in [200, 100, 900] {
        let lease = fixture.lease(b"k", &[1, 1], seconds * SECOND).lease;
        let until = lease.expect("it fits").granted_at + Span::from_secs(seconds);
        let until_ms = until.as_micros() / 1_000;
        let row = ends("{tidegate:t:k}:r");
        assert!(
            (0..=120_000).contains(&(row - until_ms)),
            "{row} {until_ms}"
        );
        for book in ["{tidegate:t:k}:b", "{tidegate:t:k}:d"] {
            let over = ends(book) - until_ms - keep as i64;
            assert!((0..=240_000).contains(&over), "{book}: {over}");
        }
    }
}

#[test]
fn a_plain_lease_has_expired_at_its_expiry_and_not_before() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Caller);
    let rules = [(0, rate(1, 100)), (0, slots(9))];
    let mut fixture = Fixture::at(&store, "t", plan(0, 1, &rules), START);
    for (id, micros, has_expired) in [(1, 999, false), (2, 1_000, true)] {
        assert!(fixture.lease(b"k", &[1, 1], 1_000).verdict.admitted());
        fixture.now = fixture.now + Span::from_micros(micros);
        let settled = fixture.end(b"k", id, Ending::Release).expect("remembered");
        assert_eq!(settled.expired, has_expired, "after {micros} us");
    }
}

/// The window of before the reset begins when that of after does.
#[test]
fn what_was_taken_before_a_reset_is_not_given_back_to_a_window_after() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Caller);
    let window = Window::new(9, Align::Epoch(Span::from_secs(3_600))).expect("a window");
    let rules = [(0, Rule::Window(window)), (0, slots(9))];
    let mut fixture = Fixture::at(&store, "t", plan(0, 1, &rules), START);
    assert!(fixture.lease(b"k", &[5, 1], SECOND).verdict.admitted());
    fixture.ask(b"k", Verb::Reset).expect("a reset");
    assert!(fixture.lease(b"k", &[4, 1], SECOND).verdict.admitted());
    fixture.end(b"k", 1, Ending::Cancel).expect("held");
    assert_eq!(fixture.left(b"k"), [5, 8]);
    fixture.end(b"k", 2, Ending::Cancel).expect("held");
    assert_eq!(fixture.left(b"k"), [9, 9]);
}
