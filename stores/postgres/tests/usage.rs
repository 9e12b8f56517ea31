//! What was used, as it is listed while much has ended, or others hold its roots.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{Fixture, KEEP, SECOND, hourly, limit, machine_time, open, options, rate, sql};
use tidegate_conformance::TableExt;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::{Clock, Options, PostgresStore};
use tidegate_store::core::{Rule, Span};
use tidegate_store::{Hours, Plan, PlanLimit, Select, StoreError, Usage};

/// So many leases have expired under each root, none of them dealt with.
const EXPIRED: usize = 3;

/// What a lease takes comes back as it expires, and is counted.
fn fixture(server: &PostgresServer) -> (PostgresStore, Fixture) {
    let options = Options {
        deadline: Duration::from_secs(8),
        ..options(Clock::Server)
    };
    let limit = PlanLimit {
        refund_on_expiry: true,
        ..limit("calls", 0, 0, hourly(1_000_000))
    };
    let plan = Plan::new(0, 1, vec![limit], KEEP).counting_usage(Some(Span::from_secs(86_400)));
    let store = PostgresStore::open(&server.url(), options).expect("a server");
    let fixture = Fixture::at(&store, "t", Arc::new(plan), machine_time());
    (store, fixture)
}

/// Leases of these keys that have expired.
fn expire(server: &PostgresServer, fixture: &Fixture, keys: &[&[u8]]) {
    for key in keys {
        for _ in 0..EXPIRED {
            assert!(fixture.lease(key, &[1], 600 * SECOND).lease.is_some());
        }
    }
    sql(
        server,
        "UPDATE tidegate.leases SET expires_at = granted_at + 1, due = granted_at + 1;
         UPDATE tidegate.rows SET due = latest - 1",
    );
}

/// What each key is listed with.
fn listed(fixture: &Fixture) -> Vec<(Vec<u8>, u64)> {
    let listing = fixture.listing(Select::All, 1_000, None);
    let page = fixture.table.list_usage(&listing, Hours::ALL);
    let items = page.expect("a page").items.into_iter();
    items
        .map(|used| (used.key.bytes().to_vec(), used.amount))
        .collect()
}

/// Locked by somebody else for as long as the deadline, it is listed as it is kept; neither the page
/// nor the other roots wait for it.
#[test]
fn a_root_that_is_locked_keeps_no_other_from_being_listed() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (_store, fixture) = fixture(&server);
    expire(&server, &fixture, &[b"a", b"b", b"c"]);
    let sleeps = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    std::thread::scope(|scope| {
        let holds = scope.spawn(|| {
            let hold = "BEGIN; SELECT FROM tidegate.rows WHERE key = 'b' FOR UPDATE;
                SELECT pg_sleep(600)";
            std::panic::catch_unwind(|| sql(&server, hold))
        });
        while sql(&server, &format!("SELECT count(*) {sleeps}")) != ["1"] {}
        // As many as there are connections do not take all of them to wait for it.
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let listed = listed(&fixture);
                    assert!(
                        listed.contains(&(b"b".to_vec(), EXPIRED as u64)),
                        "{listed:?}"
                    );
                });
            }
            assert!(fixture.admits(b"a", &[1]));
        });
        sql(
            &server,
            &format!("SELECT pg_terminate_backend(pid) {sleeps}"),
        );
        assert!(holds.join().expect("caught").is_err(), "it was ended");
    });
    assert_eq!(listed(&fixture), [(b"a".to_vec(), 1)]);
}

/// They are ended some at a time, each time by a transaction of its own.
#[test]
fn more_expired_leases_than_one_call_ends_are_all_ended() {
    const MANY: usize = 1_700;
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (_store, fixture) = fixture(&server);
    let take = |_| assert!(fixture.lease(b"k", &[1], 600 * SECOND).lease.is_some());
    (0..MANY).for_each(take);
    expire(&server, &fixture, &[b"k"]);
    assert_eq!(listed(&fixture), []);
    let held = "SELECT count(*) FROM tidegate.leases WHERE stage = 0";
    assert_eq!(sql(&server, held), ["0"]);
}

/// A plan of buckets, called so, that counts.
fn counting(version: u64, names: &[&str], rule: Rule) -> Arc<Plan> {
    let named = |(uid, name): (usize, &&str)| limit(name, uid as u32, 0, rule);
    let limits = names.iter().enumerate().map(named).collect();
    let plan = Plan::new(version, 1, limits, KEEP);
    Arc::new(plan.counting_usage(Some(Span::from_secs(30 * 86_400))))
}

/// What is listed, each as the text of key, limit, and amount.
fn lines(fixture: &Fixture) -> Vec<String> {
    let listing = fixture.listing(Select::All, 1_000, None);
    let page = fixture.table.list_usage(&listing, Hours::ALL);
    let line = |used: Usage| {
        let key = String::from_utf8_lossy(used.key.bytes()).into_owned();
        format!("{key} {} {}", used.limit, used.amount)
    };
    page.expect("a page").items.into_iter().map(line).collect()
}

const IN_ROWS: &str = "SELECT count(*) FROM tidegate.rows WHERE used_hour IS NOT NULL";

/// The fast paths count in the row, which goes when it is as never seen.
#[test]
fn what_was_used_stays_when_its_row_is_pruned() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (past, store) = (open(&server, Clock::Caller), open(&server, Clock::Server));
    let ago = machine_time() - Span::from_secs(7_200);
    for names in [&["calls"][..], &["calls", "tokens"]] {
        let table = format!("{} limits", names.len());
        let plan = counting(0, names, rate(1, 100));
        let before = Fixture::at(&past, &table, Arc::clone(&plan), ago);
        let amounts = vec![3; names.len()];
        for key in [&b"a"[..], b"b", b"b"] {
            assert!(before.admits(key, &amounts));
        }
        assert_eq!(sql(&server, IN_ROWS), ["2"]);
        let now = Fixture::at(&store, &table, plan, machine_time());
        let of = |key: &str, amount: u64| {
            let line = move |name: &&str| format!("{key} {name} {amount}");
            names.iter().map(line).collect::<Vec<_>>()
        };
        let listed = [of("a", 3), of("b", 6)].concat();
        assert_eq!(lines(&now), listed);
        while store.prune().expect("an answer") > 0 {}
        assert_eq!(sql(&server, "SELECT count(*) FROM tidegate.rows"), ["0"]);
        assert_eq!(lines(&now), listed);
    }
}

/// A row says by its revision what its limits are called.
#[test]
fn pruning_moves_what_rows_of_older_limits_have_counted_to_the_records() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (past, store) = (open(&server, Clock::Caller), open(&server, Clock::Server));
    let before = Fixture::at(
        &past,
        "t",
        counting(0, &["a", "b"], rate(1, 99_999)),
        machine_time(),
    );
    assert!(before.admits(b"idle", &[1_000, 2_000]) && before.admits(b"used", &[3_000, 4_000]));
    let renamed = before.beside(counting(1, &["c", "b"], rate(1, 99_999)));
    // The first carries the row to the new limits, and is counted in the records.
    for _ in 0..2 {
        assert!(renamed.admits(b"used", &[500, 500]));
    }
    let expected = [
        "idle a 1000",
        "idle b 2000",
        "used a 3000",
        "used b 5000",
        "used c 1000",
    ];
    assert_eq!(lines(&renamed), expected);
    assert_eq!(sql(&server, IN_ROWS), ["2"]);
    store.prune().expect("an answer");
    assert_eq!(
        sql(&server, IN_ROWS),
        ["1"],
        "that of the newest limits stays"
    );
    assert_eq!(lines(&renamed), expected);
}

/// The row was to begin another hour, and the records had what was used in the one before.
#[test]
fn a_lease_id_that_is_taken_counts_nothing_twice_in_a_new_hour() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Caller);
    let fixture = Fixture::at(
        &store,
        "t",
        counting(0, &["a", "b"], rate(1, 99)),
        machine_time(),
    );
    fixture.number_from(7);
    assert!(fixture.lease(b"k", &[5, 5], 7_200 * SECOND).lease.is_some());
    fixture.set_now(fixture.now() + Span::from_secs(3_600));
    fixture.number_from(7);
    let again = fixture.lease_by(b"k", &[1, 1], 7_200 * SECOND, None);
    assert_eq!(again.err(), Some(StoreError::DuplicateLease));
    assert_eq!(lines(&fixture), ["k a 5", "k b 5"]);
}

/// One that was written while its set was cleared: no step of any set got past it.
#[test]
fn a_row_whose_limits_are_gone_is_pruned_like_any_other() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (past, store) = (open(&server, Clock::Caller), open(&server, Clock::Server));
    let ago = machine_time() - Span::from_secs(7_200);
    let table = |name| Fixture::at(&past, name, counting(0, &["a"], rate(1, 99)), ago);
    let (cleared, other) = (table("cleared"), table("other"));
    assert!(cleared.admits(b"k", &[1]) && other.admits(b"k", &[1]));
    sql(
        &server,
        "DELETE FROM tidegate.revisions WHERE tab = (SELECT min(tab) FROM tidegate.rows);
         DELETE FROM tidegate.sets WHERE tab = (SELECT min(tab) FROM tidegate.rows)",
    );
    store.prune().expect("an answer");
    assert_eq!(sql(&server, "SELECT count(*) FROM tidegate.rows"), ["0"]);
    assert_eq!(lines(&other), ["k a 1"]);
}

/// The row has more of that hour, which is kept for longer: the record went by the shorter time, and
/// what it had of the hour with it.
#[test]
fn a_record_is_kept_for_as_long_as_its_row_has_more_of_its_hour() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (past, store) = (open(&server, Clock::Caller), open(&server, Clock::Server));
    let ago = machine_time() - Span::from_secs(7 * 86_400);
    let kept = |version, hours: u64| {
        let plan = Plan::clone(&counting(version, &["a", "b"], rate(1, 9_999_999)));
        Arc::new(plan.counting_usage(Some(Span::from_secs(3_600 * hours))))
    };
    let before = Fixture::at(&past, "t", kept(0, 1), ago);
    assert!(before.admits(b"k", &[5_000_000, 5_000_000]));
    let after = before.beside(kept(1, 30 * 24));
    after.left(b"k");
    assert!(after.admits(b"k", &[3_000_000, 3_000_000]));
    assert_eq!(lines(&after), ["k a 8000000", "k b 8000000"]);
    while store.prune().expect("an answer") > 0 {}
    assert_eq!(lines(&after), ["k a 8000000", "k b 8000000"]);
    after.set_now(after.now() + Span::from_secs(3_600));
    assert!(after.admits(b"k", &[1, 1]));
    while store.prune().expect("an answer") > 0 {}
    let later = ["k a 8000000", "k b 8000000", "k a 1", "k b 1"];
    assert_eq!(lines(&after), later);
}
