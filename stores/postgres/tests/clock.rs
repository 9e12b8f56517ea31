//! The server's clock: one for all callers, and what is kept until when.

mod support;

use support::{Desk, SECOND, hourly, machine_time, open, plan, rate, slots, sql};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_contract::core::{Span, Verdict};
use tidegate_contract::{Ending, Verb};
use tidegate_postgres::Clock;

const HOUR: Span = Span::from_secs(3_600);

/// Both must be refused until about an hour from now, by their own clocks.
#[test]
fn a_caller_whose_clock_is_off_waits_as_long_as_one_whose_clock_is_right() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    for (name, rule) in [("window", hourly(5)), ("bucket", rate(1, 3_600))] {
        let all = [rule.capacity()];
        let limits = || plan(0, 1, &[(0, rule)]);
        let right = Desk::at(&store, name, limits(), machine_time());
        assert!(right.admits(b"k", &all));
        for now in [machine_time(), machine_time() - HOUR, machine_time() + HOUR] {
            let off = Desk::at(&store, name, limits(), now);
            let Ok(Verdict::NotUntil(at)) = off.take(b"k", &all) else {
                panic!("admitted");
            };
            let wait = at.since(now);
            assert!(wait <= HOUR, "{wait:?}");
            assert!(wait >= Span::from_secs(3_400), "{wait:?}");
        }
    }
}

#[test]
fn a_lease_lasts_as_long_whatever_its_holders_clock_says() {
    let Some(server) = PostgresServer::start() else {
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

/// Rows and leases from an hour ago, by a process whose clock stood there.
#[test]
fn what_equals_never_seen_is_pruned_and_nothing_else() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (past, store) = (open(&server, Clock::Caller), open(&server, Clock::Server));
    let rules = [(0, rate(1, 100)), (1, hourly(9)), (1, slots(4))];
    let limits = || plan(0, 2, &rules);
    let ago = machine_time() - HOUR - Span::from_secs(600);
    let mut before = Desk::at(&past, "t", limits(), ago);
    before.lease(b"old/key", &[50, 1, 1], 30 * SECOND);
    before.lease(b"kept/key", &[50, 1, 1], 30 * SECOND);
    let mut now = Desk::at(&store, "t", limits(), machine_time());
    now.leases = 7;
    now.lease(b"kept/key", &[0, 1, 1], 600 * SECOND);
    let rows = "SELECT encode(key, 'escape') FROM tidegate.rows ORDER BY 1";
    assert_eq!(sql(&server, rows), ["kept", "kept/key", "old", "old/key"]);
    while store.prune().expect("an answer") > 0 {}
    assert_eq!(sql(&server, rows), ["kept", "kept/key"]);
    let leases = "SELECT id, stage FROM tidegate.leases ORDER BY 1";
    assert_eq!(sql(&server, leases), ["8 0"]);
    assert_eq!(now.left(b"kept/key"), [100, 8, 3]);
}

/// A row written by a server whose clock was ahead, as before a failover. All is
/// used: a hundred seconds from then, or from now, it is there again.
#[test]
fn time_does_not_go_back_a_little_and_limits_follow_if_it_goes_back_far() {
    let Some(server) = PostgresServer::start() else {
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
        assert!(wait <= Span::from_secs(109), "{wait:?}");
        assert!(wait >= Span::from_secs(50), "{wait:?}");
    }
}
