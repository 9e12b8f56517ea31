//! The server's clock decides, whatever the caller's says; and what is spent goes.

mod support;

use std::sync::Arc;

use support::{Fixture, SECOND, hourly, machine_time, number, open, plan, slots};
use tidegate_conformance::TableExt as _;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_mysql::Clock;
use tidegate_store::core::Span;

tidegate_conformance::clock_suite!(MariadbServer::start, open, Clock);

const HOUR: Span = Span::from_secs(3_600);

fn rows(server: &MariadbServer) -> u64 {
    number(server, "SELECT COUNT(*) FROM tidegate_rows")
}

fn leases(server: &MariadbServer) -> u64 {
    number(server, "SELECT COUNT(*) FROM tidegate_leases")
}

/// Long ago by the server's clock: what was written then is spent.
fn age(server: &MariadbServer) {
    server.ask("UPDATE tidegate_rows SET keep_until = 1, forget_at = 1");
    server.ask("UPDATE tidegate_leases SET due = 1");
}

#[test]
fn what_is_spent_is_deleted_as_commands_come_and_what_is_not_stays() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(
        &store,
        "t",
        plan(0, 1, &[(0, hourly(9_999))]),
        machine_time(),
    );
    for key in 0..100_u8 {
        assert!(fixture.admits(&[key], &[1]));
    }
    assert_eq!(
        (
            rows(&server),
            fixture.table.count(fixture.now()).expect("a count").keys
        ),
        (100, 100)
    );
    age(&server);
    assert_eq!(fixture.table.count(fixture.now()).expect("a count").keys, 0);
    // So many commands that some of them are followed by a sweep.
    while rows(&server) > 1 {
        assert!(fixture.admits(b"live", &[1]));
    }
    assert_eq!(
        fixture.table.count(fixture.now()).expect("a count").keys,
        1,
        "the live one stays"
    );
    assert!(fixture.left(b"live")[0] < 9_999);
    fixture.lease(b"live", &[1], SECOND);
    assert_eq!(leases(&server), 1);
}

#[test]
fn usage_that_is_over_is_deleted_as_commands_come_and_what_is_not_stays() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let plan = Arc::unwrap_or_clone(plan(0, 1, &[(0, hourly(9_999))]));
    let plan = plan.counting_usage(Some(HOUR));
    let fixture = Fixture::at(&store, "t", Arc::new(plan), machine_time());
    for key in 0..100_u8 {
        assert!(fixture.admits(&[key], &[1]));
    }
    let records = || {
        number(
            &server,
            "SELECT COUNT(*) FROM tidegate_usage WHERE amount = 1",
        )
    };
    assert_eq!(records(), 100);
    server.ask("UPDATE tidegate_usage SET over_at = 1 WHERE name <> X'07'");
    while records() > 1 {
        fixture.left(b"a");
    }
    assert!(fixture.admits(&[7], &[1]));
    assert_eq!(records(), 0);
    let all = number(&server, "SELECT SUM(amount) FROM tidegate_usage");
    assert_eq!(all, 2, "what is not over goes on");
}

/// A lease of a root that nobody asks any more: it is looked at all the same, and
/// forgotten once the plan does not remember it.
#[test]
fn a_lease_that_was_left_alone_is_forgotten_in_the_end() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let past = machine_time() - HOUR;
    let earlier = open(&server, Clock::Caller);
    let limits = || plan(0, 1, &[(0, slots(9))]);
    let fixture = Fixture::at(&earlier, "t", limits(), past);
    for _ in 0..20 {
        let key = [fixture.last_lease() as u8];
        assert!(fixture.lease(&key, &[1], SECOND).lease.is_some());
    }
    assert_eq!(leases(&server), 20);
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(&store, "t", limits(), machine_time());
    while leases(&server) > 0 {
        fixture.left(b"another");
    }
}
