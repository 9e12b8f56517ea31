//! What was used, as it is listed while much has ended, or others hold its roots.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{Fixture, KEEP, SECOND, hourly, machine_time, options, sql};
use tidegate_conformance::TableExt;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::{Clock, Options, PostgresStore};
use tidegate_store::core::{Payment, Span};
use tidegate_store::{Hours, Plan, PlanLimit, Select};

/// So many leases have expired under each root, none of them dealt with.
const EXPIRED: usize = 3;

/// What a lease takes comes back as it expires, and is counted.
fn fixture(server: &PostgresServer) -> (PostgresStore, Fixture) {
    let options = Options {
        deadline: Duration::from_secs(8),
        ..options(Clock::Server)
    };
    let limit = PlanLimit {
        name: "calls".into(),
        uid: 0,
        rule: hourly(1_000_000),
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: true,
        adaptive: None,
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
