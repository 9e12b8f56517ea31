//! How much the server reads for a command.

mod support;

use support::{Fixture, KEEP, SECOND, machine_time, open, plan, rate, slots, sql};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::wait_for;
use tidegate_postgres::Clock;
use tidegate_store::core::Span;
use tidegate_store::definitions::event_cursor;
use tidegate_store::{Ending, Store as _, Verb};

/// How many of a store's sessions are there: what one has read is counted as it ends.
const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidegate'";

/// What was read of the indexes of these tables, once all that has ended was counted.
fn entries_read(server: &PostgresServer) -> u64 {
    // Each look is a connection of its own, which takes a while.
    while sql(server, SESSIONS) != ["0"] {}
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
    let fixture = |leases| {
        let store = open(&server, Clock::Server);
        let plan = plan(0, 1, &[(0, slots(1_000))]);
        let fixture = Fixture::at(&store, "t", plan, machine_time());
        fixture.number_from(leases);
        (store, fixture)
    };
    let hold = |from, to| {
        let (_store, fixture) = fixture(from);
        while fixture.last_lease() < to {
            assert!(fixture.lease(b"k", &[1], 600 * SECOND).lease.is_some());
        }
    };
    hold(0, 1);
    sql(&server, "ANALYZE tidegate.leases");
    hold(1, HELD);
    let before = entries_read(&server);
    let (store, fixture) = fixture(HELD);
    for back in 0..ENDED {
        let id = HELD - u128::from(back);
        fixture.end(b"k", id, Ending::Release).expect("it is held");
    }
    drop((store, fixture));
    let read = entries_read(&server) - before;
    assert!(read < ENDED * 10, "{read} entries for {ENDED} that ended");
}

/// The planner, told that nobody has a lease, guesses that to read all of them is as good
/// as to look one up, until it is told again; by then there may be any number.
#[test]
fn leases_that_came_after_the_planner_looked_are_not_read_one_after_the_other() {
    let Some(server) = PostgresServer::start_with(&["autovacuum=off"]) else {
        return;
    };
    let fixture = || {
        let store = open(&server, Clock::Server);
        let plan = plan(0, 1, &[(0, rate(9, 900)), (0, slots(900))]);
        let fixture = Fixture::at(&store, "t", plan, machine_time());
        (store, fixture)
    };
    drop(fixture());
    sql(&server, "VACUUM ANALYZE tidegate.leases");
    let read = "SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables
        WHERE schemaname = 'tidegate' AND relname = 'leases'";
    let before = sql(&server, read);
    let (store, fixture) = fixture();
    for _ in 0..50 {
        for _ in 0..2 {
            assert!(fixture.lease(b"k", &[1, 1], 600 * SECOND).lease.is_some());
        }
        let ended = fixture.end(b"k", fixture.last_lease(), Ending::Release);
        ended.expect("it is held");
    }
    drop((store, fixture));
    while sql(&server, SESSIONS) != ["0"] {}
    assert_eq!(sql(&server, read), before);
}

/// What has ended is forgotten many at a time, by commands that have no need of it.
#[test]
fn a_key_that_is_always_in_use_remembers_ended_leases_for_as_long_as_it_should() {
    const LEASES: u64 = 300;
    const EVERY: u64 = 1_000_000;
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Caller);
    let rules = [(0, rate(9, 9)), (0, slots(9))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    for _ in 0..LEASES {
        assert!(fixture.lease(b"k", &[1, 1], 600 * SECOND).lease.is_some());
        let end = Verb::End {
            id: fixture.last_lease(),
            ending: Ending::Settle(&[Some(1), None]),
            remember: true,
        };
        fixture.execute(b"k", end).expect("it is held");
        fixture.set_now(fixture.now() + Span::from_micros(EVERY));
    }
    let kept = &sql(&server, "SELECT count(*) FROM tidegate.leases")[0];
    let most = KEEP.as_micros() / EVERY + 1;
    assert!(kept.parse::<u64>().expect("a number") <= most, "{kept}");
}

/// For each five hundred that had ended all leases of the root were read, held ones too.
#[test]
fn what_has_ended_is_forgotten_without_a_look_at_what_is_held() {
    const HELD: u64 = 400;
    const ENDED: u64 = 50;
    let Some(server) = PostgresServer::start_with(&["autovacuum=off"]) else {
        return;
    };
    let store = open(&server, Clock::Caller);
    let limits = || plan(0, 1, &[(0, slots(1_000))]);
    let fixture = Fixture::at(&store, "t", limits(), machine_time());
    for _ in 0..HELD {
        assert!(fixture.lease(b"k", &[1], 600 * SECOND).lease.is_some());
    }
    for id in 1..=ENDED {
        let end = Verb::End {
            id: id.into(),
            ending: Ending::Release,
            remember: true,
        };
        fixture.execute(b"k", end).expect("it is held");
    }
    let later = fixture.now() + KEEP + Span::from_secs(1);
    drop((fixture, store));
    let before = entries_read(&server);
    let store = open(&server, Clock::Caller);
    let fixture = Fixture::at(&store, "t", limits(), later);
    fixture.number_from(u128::from(HELD));
    assert!(fixture.lease(b"k", &[1], 600 * SECOND).lease.is_some());
    drop((fixture, store));
    let read = entries_read(&server) - before;
    let kept = format!("{}", HELD - ENDED + 1);
    assert_eq!(sql(&server, "SELECT count(*) FROM tidegate.leases"), [kept]);
    assert!(read < HELD, "{read} entries for {ENDED} to forget");
}

/// So many leases that have ended, like the one that is held.
fn ended(many: u64) -> String {
    format!(
        "INSERT INTO tidegate.leases (tab, stage, expires_at, due, root, id, fence, owner, ends,
            shares, settlement, granted_at)
         SELECT tab, 2, expires_at, granted_at - 1000000 - i, root, id + i, fence, owner, ends, shares,
            '{{0}}', granted_at
         FROM tidegate.leases, generate_series(1, {many}) AS i"
    )
}

/// One call forgot up to 250,000, and went over all that it had deleted to find the next: of a
/// key that had been in much use, and was left alone for a while, no command came to an end
/// within its deadline, and none was nearer to it than the one before.
#[test]
fn no_call_forgets_more_that_has_ended_than_it_has_time_for() {
    const ENDED: u64 = 2_000;
    const ONE_CALL: u64 = 500;
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, rate(9, 9)), (0, slots(9))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    assert!(fixture.lease(b"k", &[1, 1], 600 * SECOND).lease.is_some());
    let others = format!(
        "{};
         UPDATE tidegate.rows SET due = latest - 2000000",
        ended(ENDED)
    );
    sql(&server, &others);
    let call = "SELECT tidegate.catch_up(tab, key, revision, tidegate.clock(), false)
        FROM tidegate.rows";
    assert_eq!(sql(&server, call), ["f"], "that was not all");
    let left = "SELECT count(*) FROM tidegate.leases";
    let kept = format!("{}", ENDED - ONE_CALL + 1);
    assert_eq!(sql(&server, left), [kept]);
    assert!(fixture.admits(b"k", &[1, 0]));
    assert_eq!(sql(&server, left), ["1"]);
}

/// Each revision that was followed had five hundred of its own: where limits had been changed
/// often while a key was left alone, one call forgot all that had ended meanwhile.
#[test]
fn no_call_forgets_more_of_what_has_ended_because_limits_changed_meanwhile() {
    const CHANGES: u64 = 20;
    const BETWEEN: u64 = 100;
    const ENDED: u64 = CHANGES * BETWEEN;
    const ONE_CALL: u64 = 500;
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, rate(9, 9)), (0, slots(9))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    assert!(fixture.lease(b"k", &[1, 1], 600 * SECOND).lease.is_some());
    let meanwhile = format!(
        "{};
         INSERT INTO tidegate.revisions (tab, revision, version, at, levels, keep, refunds, rules, ends,
            names, calendars)
         SELECT e.tab, e.revision + i, e.version + i,
            l.granted_at - 1000000 - {ENDED} + {BETWEEN} * i, e.levels, e.keep, e.refunds, e.rules,
            e.ends, e.names, e.calendars
         FROM tidegate.revisions e, generate_series(1, {CHANGES}) AS i,
            (SELECT min(granted_at) AS granted_at FROM tidegate.leases) AS l;
         UPDATE tidegate.rows SET due = latest - 2000000",
        ended(ENDED)
    );
    sql(&server, &meanwhile);
    let call = format!(
        "SELECT tidegate.catch_up(tab, key, revision + {CHANGES}, tidegate.clock(), false)
         FROM tidegate.rows"
    );
    let left = "SELECT count(*) FROM tidegate.leases";
    for calls in 1..=ENDED / ONE_CALL {
        assert_eq!(sql(&server, &call), ["f"], "that was not all");
        let kept = format!("{}", ENDED - calls * ONE_CALL + 1);
        assert_eq!(sql(&server, left), [kept]);
    }
    assert_eq!(sql(&server, &call), ["t"], "nothing is left to do");
    assert_eq!(sql(&server, left), ["1"]);
}

/// Of an owner with very many definitions and events a page reads what is on it.
#[test]
fn a_page_of_definitions_or_events_reads_what_is_on_it() {
    const MANY: u64 = 20_000;
    let Some(server) = PostgresServer::start_with(&["autovacuum=off"]) else {
        return;
    };
    drop(open(&server, Clock::Server));
    let all = format!("FROM generate_series(1, {MANY}) AS n");
    let key = "convert_to('k' || lpad(n::text, 9, '0'), 'UTF8')";
    sql(
        &server,
        &format!("INSERT INTO tidegate.definitions SELECT 'me', {key}, NULL, '', n, NULL {all}"),
    );
    sql(
        &server,
        &format!(
            "INSERT INTO tidegate.definition_events
             SELECT 'me', n, convert_to((n % 2)::text, 'UTF8'), NULL, '', 0, {}, 1 {all}",
            i64::MAX
        ),
    );
    let counted = "SELECT sum(idx_tup_read + seq_tup_read)::bigint::text
        FROM pg_stat_user_tables t JOIN pg_stat_user_indexes i USING (relid)
        WHERE t.relname IN ('definitions', 'definition_events')";
    let read = || {
        while sql(&server, SESSIONS) != ["0"] {}
        sql(&server, counted)[0].parse::<u64>().expect("a number")
    };
    let before = read();
    let store = open(&server, Clock::Server);
    for prefix in [&b""[..], b"k", b"k00000123"] {
        let page = store.definitions_page("me", prefix, Some(b"k000001234"), 5);
        let page = wait_for(page).expect("an answer");
        assert_eq!(page.items.len(), 5);
    }
    for subject in [None, Some(&b"1"[..])] {
        let after = event_cursor(MANY / 2);
        let page = store.events("me", subject, Some(&after), 10, machine_time());
        assert_eq!(wait_for(page).expect("an answer").items.len(), 10);
    }
    drop(store);
    let read = read() - before;
    assert!(read < 200, "{read} entries for 35");
}
