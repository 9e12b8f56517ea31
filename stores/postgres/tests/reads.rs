//! How much the server reads for a command.

mod support;

use support::{Desk, SECOND, machine_time, open, plan, slots, sql};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_contract::Ending;
use tidegate_postgres::Clock;

/// What was read of the indexes of these tables, once all that has ended was counted.
fn entries_read(server: &PostgresServer) -> u64 {
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidegate'";
    // Each look is a connection of its own, which takes a while.
    while sql(server, idle) != ["0"] {}
    let read = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'tidegate'
        AND relname IN ('leases', 'waiters')";
    sql(server, read)[0].parse().expect("a number")
}

/// The planner, told when a root had one lease, guesses that it still has.
#[test]
fn a_lease_is_found_at_once_among_however_many_its_root_has() {
    const HELD: u128 = 400;
    const ENDED: u64 = 50;
    let Some(server) = PostgresServer::start_with(&["autovacuum=off"]) else {
        return;
    };
    let desk = |leases| {
        let store = open(&server, Clock::Server);
        let plan = plan(0, 1, &[(0, slots(1_000))]);
        let desk = Desk::at(&store, "t", plan, machine_time());
        (store, Desk { leases, ..desk })
    };
    let hold = |from, to| {
        let (_store, mut desk) = desk(from);
        while desk.leases < to {
            assert!(desk.lease(b"k", &[1], 600 * SECOND).lease.is_some());
        }
    };
    hold(0, 1);
    sql(&server, "ANALYZE tidegate.leases");
    hold(1, HELD);
    let before = entries_read(&server);
    let (store, desk) = desk(HELD);
    for back in 0..ENDED {
        let id = HELD - u128::from(back);
        desk.end(b"k", id, Ending::Release).expect("it is held");
    }
    drop((store, desk));
    let read = entries_read(&server) - before;
    assert!(read < ENDED * 10, "{read} entries for {ENDED} that ended");
}
