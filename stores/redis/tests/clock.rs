//! The server's clock: one for all callers, and what is kept until when.

mod support;

use support::{Desk, KEEP, SECOND, ask, connect, hourly, machine_time, open, plan, rate, slots};
use tidegate_conformance::redis_server::RedisServer;
use tidegate_contract::core::{Span, Verdict};
use tidegate_contract::{Ending, StoreError, Verb};
use tidegate_redis::Clock;

const HOUR: Span = Span::from_secs(3_600);

/// Both must be refused until about an hour from now, by their own clocks.
#[test]
fn a_caller_whose_clock_is_off_waits_as_long_as_one_whose_clock_is_right() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let right = Desk::at(&store, "t", plan(0, 1, &[(0, hourly(5))]), machine_time());
    assert!(right.admits(b"k", &[5]));
    for now in [machine_time(), machine_time() - HOUR, machine_time() + HOUR] {
        let off = Desk::at(&store, "t", plan(0, 1, &[(0, hourly(5))]), now);
        let Ok(Verdict::NotUntil(at)) = off.take(b"k", &[1]) else {
            panic!("admitted");
        };
        let wait = at.since(now);
        assert!(wait <= HOUR, "{wait:?}");
        assert!(wait >= Span::from_secs(3_400), "{wait:?}");
    }
}

#[test]
fn a_lease_lasts_as_long_whatever_its_holders_clock_says() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let behind = machine_time() - HOUR;
    let mut desk = Desk::at(&store, "t", plan(0, 1, &[(0, slots(1))]), behind);
    let granted = desk.lease(b"k", &[1], 600 * SECOND).lease.expect("it fits");
    assert_eq!(granted.expires_at, behind + Span::from_secs(600));
    assert!(
        !desk.admits(b"k", &[1]),
        "held, though it expired by the hour ago"
    );
    let until = behind + Span::from_secs(900);
    desk.ask(b"k", Verb::Renew { id: 1, until }).expect("held");
    let settlement = desk.end(b"k", 1, Ending::Release).expect("held");
    assert!(!settlement.expired);
    assert!(desk.admits(b"k", &[0]));
}

/// A row until it equals "never seen", a lease for as long as it is remembered;
/// no key without an end.
#[test]
fn every_key_has_an_end() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, rate(1, 100)), (1, hourly(9)), (1, slots(4))];
    let mut desk = Desk::at(&store, "t", plan(0, 2, &rules), machine_time());
    desk.lease(b"a/b", &[50, 1, 1], 30 * SECOND);
    let mut connection = connect(&server);
    let mut ttl = |key: &str| -> i64 { ask(&mut connection, &["PTTL", key]) };
    let about = |millis: i64, seconds: i64| (millis - seconds * 1_000).abs() < 20_000;
    let tag = "{tidegate:t:a}";
    assert!(
        about(ttl(&format!("{tag}:r")), 50),
        "the bucket is full again"
    );
    assert!(about(ttl(&format!("{tag}:r/b")), 3_600), "the hour is over");
    let keep = 30 + KEEP.as_micros() as i64 / 1_000_000;
    assert!(
        about(ttl(&format!("{tag}:b")), keep),
        "the lease is forgotten"
    );
    assert!(about(ttl(&format!("{tag}:d")), keep));
    desk.end(b"a/b", 1, Ending::Cancel).expect("held");
    assert_eq!(ttl(&format!("{tag}:b")), -2, "no lease, no book");
    assert_eq!(ttl(&format!("{tag}:r")), -2, "nothing used, no row");
    assert_eq!(desk.table.len(), 1, "the hour that was begun");
}

/// A row written by a server whose clock was ahead, as before a failover. All is
/// used: a hundred seconds from then, or from now, it is there again.
#[test]
fn time_does_not_go_back_a_little_and_limits_follow_if_it_goes_back_far() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (ahead, store) = (open(&server, Clock::Caller), open(&server, Clock::Server));
    let limits = || plan(0, 1, &[(0, rate(1, 100))]);
    for by in [Span::from_secs(8), HOUR] {
        let writer = Desk::at(&ahead, "t", limits(), machine_time() + by);
        let key = by.as_micros().to_string();
        assert!(writer.admits(key.as_bytes(), &[100]));
        let desk = Desk::at(&store, "t", limits(), machine_time());
        let verdict = desk.take(key.as_bytes(), &[100]).expect("an answer");
        let Verdict::NotUntil(at) = verdict else {
            panic!("{verdict:?}")
        };
        let wait = at.since(desk.now);
        assert!(wait <= Span::from_secs(100), "{wait:?}");
        assert!(wait >= Span::from_secs(50), "{wait:?}");
    }
}

#[test]
fn a_lease_that_was_never_given_is_unknown() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let desk = Desk::at(&store, "t", plan(0, 1, &[(0, slots(1))]), machine_time());
    let unknown = desk.end(b"k", 7, Ending::Release);
    assert_eq!(unknown, Err(StoreError::UnknownLease));
}
