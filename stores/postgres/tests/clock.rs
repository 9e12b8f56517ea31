//! The server's clock: one for all callers, and what is kept until when.

mod support;

use support::{Desk, SECOND, hourly, machine_time, open, plan, rate, slots, sql};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_contract::core::Span;
use tidegate_postgres::Clock;

tidegate_conformance::clock_suite!(PostgresServer::start, open, Clock);

const HOUR: Span = Span::from_secs(3_600);

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
