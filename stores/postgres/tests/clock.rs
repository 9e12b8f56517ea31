//! The server's clock: one for all callers, and what is kept until when.

mod support;

use support::{Fixture, SECOND, hourly, machine_time, open, options, plan, rate, slots, sql};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::{Clock, Options, PostgresStore};
use tidegate_store::core::Span;
use tidegate_store::{Detail, Ending, Reply, Verb};

tidegate_conformance::clock_suite!(PostgresServer::start, open, Clock);
tidegate_conformance::clock_suite!(
    PostgresServer::start, open, Clock;
    leases_of_a_batch_are_granted_at_one_instant
);

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
    let before = Fixture::at(&past, "t", limits(), ago);
    before.lease(b"old/key", &[50, 1, 1], 30 * SECOND);
    before.lease(b"kept/key", &[50, 1, 1], 30 * SECOND);
    let now = Fixture::at(&store, "t", limits(), machine_time());
    now.number_from(7);
    now.lease(b"kept/key", &[0, 1, 1], 600 * SECOND);
    let rows = "SELECT encode(key, 'escape') FROM tidegate.rows ORDER BY 1";
    assert_eq!(sql(&server, rows), ["kept", "kept/key", "old", "old/key"]);
    while store.prune().expect("an answer") > 0 {}
    assert_eq!(sql(&server, rows), ["kept", "kept/key"]);
    let leases = "SELECT id, stage FROM tidegate.leases ORDER BY 1";
    assert_eq!(sql(&server, leases), ["8 0"]);
    assert_eq!(now.left(b"kept/key"), [100, 8, 3]);
}

/// It was one statement, which took longer than the deadline where there were enough
/// rows: it was cancelled each time, and nothing that is spent ever went. Here a look at
/// a row takes two milliseconds, and at all of them longer than the deadline.
#[test]
fn a_table_that_no_deadline_suffices_for_is_pruned_in_steps() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let hasty = Options {
        deadline: std::time::Duration::from_secs(2),
        ..options(Clock::Server)
    };
    let store = PostgresStore::open(&server.url(), hasty).expect("a server");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, rate(1, 9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
    sql(
        &server,
        "INSERT INTO tidegate.rows (tab, revision, latest, due, followed, tat, drain, key)
         SELECT tab, revision, clock - (i % 8) * 60000000, due, followed,
           clock + CASE WHEN i % 8 = 0 THEN 3600000000 ELSE -50000000 END, 1, ('row' || i)::bytea
         FROM (SELECT *, tidegate.clock() AS clock FROM tidegate.rows) r,
           generate_series(1, 1200) AS i;
         CREATE OR REPLACE FUNCTION tidegate.forget_at(p_row tidegate.rows) RETURNS numeric
         LANGUAGE plpgsql AS $$ BEGIN
           PERFORM pg_sleep(0.002);
           RETURN coalesce(p_row.forget_at, tidegate.div_up(p_row.tat, p_row.drain));
         END $$",
    );
    let pruned = store.prune().expect("an answer");
    assert!(pruned >= 1050, "{pruned}");
    let left = "SELECT count(*) FROM tidegate.rows WHERE key LIKE 'row%'";
    assert_eq!(sql(&server, left), ["150"], "what matters stays");
}

/// There went as many as a step looks at rows, for each step: where few rows live for long, fewer
/// than come.
#[test]
fn usage_that_is_over_is_deleted_however_few_rows_there_are() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    sql(
        &server,
        "INSERT INTO tidegate.usage (tab, hour, amount, over_at, key, name)
         SELECT 1, i, 1, tidegate.clock() + CASE WHEN i % 100 = 0 THEN 3600000000 ELSE -1 END,
           'k'::bytea, 'calls' FROM generate_series(1, 5000) AS i",
    );
    store.prune().expect("an answer");
    let left = "SELECT count(*) FROM tidegate.usage";
    assert_eq!(sql(&server, left), ["50"], "what is kept stays");
}

/// The end of a lease was the first that a clock which had stepped back was told by; from
/// then on a limit that was not requested noted nothing of it, and seemed to be in debt for
/// as long as the clock was behind.
#[test]
fn a_limit_that_is_not_asked_for_notes_a_clock_that_stepped_back() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Caller);
    let limits = plan(0, 1, &[(0, rate(1, 10)), (0, rate(1, 5)), (0, slots(2))]);
    let fixture = Fixture::at(&store, "t", limits, machine_time());
    assert!(fixture.admits(b"k", &[0, 5, 0]));
    let held = fixture.lease(b"k", &[1, 0, 0], 24 * 3_600 * SECOND).lease;
    let held = held.expect("it is free");
    fixture.set_now(fixture.now() - HOUR);
    let settled = fixture.end(b"k", held.id, Ending::Settle(&[]));
    settled.expect("it is held");
    let take = Verb::Take {
        amounts: &[1, 0, 0],
        lease: None,
        detail: Detail::Always,
    };
    let reply = fixture.execute(b"k", take).expect("an answer");
    let Reply::Decision(decision) = reply else {
        panic!("{reply:?}");
    };
    let debts: Vec<_> = decision
        .standings
        .iter()
        .flatten()
        .map(|s| s.debt)
        .collect();
    assert_eq!(debts, [0, 0, 0]);
    // As long as it takes to fill, from when the clock stepped back.
    fixture.set_now(fixture.now() + Span::from_secs(5));
    assert!(fixture.admits(b"k", &[0, 5, 0]));
}
