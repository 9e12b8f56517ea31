//! The schema: made, brought up to date, refused, and who may do what in it.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{Fixture, SECOND, hourly, machine_time, open, options, plan, rate, slots, sql};
use tidegate::{Algorithm, DecisionError, Lease, Limit, LimitSet, Request};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::{TableExt as _, Witness, wait_for};
use tidegate_postgres::{Clock, Options, PostgresError, PostgresStore, Tables};
use tidegate_store::{Definition, Ending, Listing, Select, Store};

#[test]
fn a_schema_that_is_missing_or_newer_is_refused_where_it_may_not_be_changed() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let content = Options {
        migrate: false,
        ..options(Clock::Server)
    };
    let none = PostgresStore::open(&server.url(), content.clone());
    drop(open(&server, Clock::Server));
    let newest = "SELECT max(version), count(*) FROM tidegate.migrations";
    let known = 1;
    assert_eq!(sql(&server, newest), [format!("{known} {known}")]);
    assert_eq!(none.err(), Some(PostgresError::Older { found: 0, known }));
    drop(PostgresStore::open(&server.url(), content).expect("it is as it must be"));
    let found = known + 1;
    sql(
        &server,
        &format!("INSERT INTO tidegate.migrations (version, name) VALUES ({found}, 'later')"),
    );
    let newer = PostgresStore::open(&server.url(), options(Clock::Server));
    assert_eq!(newer.err(), Some(PostgresError::Newer { found, known }));
}

#[test]
fn rows_and_leases_are_logged_or_not_as_is_asked() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let kept = "SELECT relname, relpersistence FROM pg_class
        WHERE relname IN ('rows', 'leases', 'definitions') ORDER BY 1";
    let open_as = |tables| {
        let options = Options {
            tables,
            ..options(Clock::Server)
        };
        let store = PostgresStore::open(&server.url(), options).expect("a server");
        let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
        assert!(fixture.admits(b"k", &[1]));
        fixture.left(b"k")
    };
    assert_eq!(open_as(Tables::AsTheyAre), [8]);
    let logged = ["definitions p", "leases p", "rows p"];
    assert_eq!(sql(&server, kept), logged);
    assert_eq!(open_as(Tables::Unlogged), [7]);
    let unlogged = ["definitions p", "leases u", "rows u"];
    assert_eq!(sql(&server, kept), unlogged);
    assert_eq!(open_as(Tables::AsTheyAre), [6]);
    assert_eq!(sql(&server, kept), unlogged);
    assert_eq!(open_as(Tables::Logged), [5]);
    assert_eq!(sql(&server, kept), logged);
}

/// What docs/stores/postgres.md says a role needs.
fn grants() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stores/postgres.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, rest) = page.split_once("```sql\n").expect("the grants");
    let (grants, _) = rest.split_once("```").expect("their end");
    grants.to_owned()
}

/// Whether who waits as this role is refused in the end.
fn waits_in_vain(options: &Options, address: &str) -> bool {
    let store = PostgresStore::open(address, options.clone()).expect("the role");
    let builder = LimitSet::builder().name("gpus").store(Arc::new(store));
    let set = builder.limit(Limit::concurrency("gpu", 1)).build();
    let set = set.expect("a sound set");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let acquire = || {
        let ask = Request::default().within(Duration::from_millis(20));
        let asked = runtime.block_on(set.acquire("k", ask));
        asked.expect("an answer").granted()
    };
    let held = acquire();
    held.is_some() && acquire().is_none()
}

#[test]
fn a_role_with_the_grants_of_the_documentation_can_do_everything_but_change_the_schema() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    drop(open(&server, Clock::Server));
    sql(&server, "CREATE ROLE app LOGIN; CREATE ROLE nobody LOGIN");
    sql(&server, &grants());
    let content = Options {
        migrate: false,
        ..options(Clock::Server)
    };
    let store = PostgresStore::open(&server.url_as("app"), content.clone()).expect("the role");
    let rules = [(0, rate(1, 100)), (1, hourly(9)), (1, slots(4))];
    let mut fixture = Fixture::at(&store, "t", plan(0, 2, &rules), machine_time());
    let lease = fixture.lease(b"a/b", &[1, 2, 1], 60 * SECOND).lease;
    assert_eq!(fixture.left(b"a/b")[1..], [7, 3]);
    fixture
        .end(b"a/b", lease.expect("it fits").id, Ending::Cancel)
        .expect("held");
    fixture.plan = plan(1, 2, &[(0, rate(2, 50))]);
    fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    assert!(fixture.admits(b"a/b", &[50]));
    let alone = Fixture::at(
        &store,
        "one",
        plan(0, 1, &[(0, rate(1, 9))]),
        machine_time(),
    );
    assert!(alone.admits(b"k", &[9]) && !alone.admits(b"k", &[9]));
    let all = Listing {
        select: Select::All,
        after: None,
        most: 9,
        now: fixture.now(),
        levels: 1,
    };
    assert_eq!(
        fixture.table.list_keys(&all).expect("a page").items.len(),
        1
    );
    fixture.table.list_leases(&all).expect("a page");
    assert!(waits_in_vain(&content, &server.url_as("app")));
    let seen = Witness::of(&store, "me");
    let while_it_lasts = Definition::new(b"k", b"v").lasting(Duration::from_secs(60));
    wait_for(store.define("me", while_it_lasts)).expect("room");
    seen.awaits(b"k", Some(b"v"));
    assert!(wait_for(store.define("me", Definition::none(b"k"))).expect("an answer"));
    assert_eq!(seen.knows(b"k"), None);
    store.prune().expect("an answer");
    let unlogged = Options {
        tables: Tables::Unlogged,
        ..content.clone()
    };
    let error = PostgresStore::open(&server.url_as("app"), unlogged).expect_err("not the owner");
    assert!(
        error.to_string().contains("docs/stores/postgres.md"),
        "{error}"
    );
    let error = PostgresStore::open(&server.url_as("nobody"), content).expect_err("no grants");
    assert!(
        error.to_string().contains("docs/stores/postgres.md"),
        "{error}"
    );
}

/// A server that had opened its sets before went on by their numbers: its key of 2 an hour
/// was admitted by another set's limit of 100, and used that up.
#[test]
fn a_set_that_was_opened_before_the_schema_was_made_anew_is_no_other_set() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let set = |store: &Arc<dyn Store>, name: &str, limit: Limit| {
        let set = LimitSet::builder().name(name).store(Arc::clone(store));
        set.limit(limit).build().expect("a sound set")
    };
    let calls = |most| Limit::calls("calls", most, Duration::from_secs(3_600));
    let window = |most| calls(most).algorithm(Algorithm::FixedWindow);
    let old: Arc<dyn Store> = Arc::new(open(&server, Clock::Server));
    let slots = |most| Limit::concurrency("calls", most);
    let before = [
        set(&old, "plain", calls(2)),
        set(&old, "window", window(2)),
        set(&old, "slots", slots(2)),
    ];
    let takes = |set: &LimitSet| {
        let admission = set.try_acquire("k", ()).wait();
        admission.map(|admission| admission.granted().map(Lease::detach).is_some())
    };
    for set in &before {
        assert_eq!(takes(set), Ok(true));
    }
    sql(&server, "DROP SCHEMA tidegate CASCADE");
    let new: Arc<dyn Store> = Arc::new(open(&server, Clock::Server));
    let others = [
        set(&new, "others", calls(100)),
        set(&new, "others' window", window(100)),
        set(&new, "others' slots", slots(100)),
    ];
    for set in &others {
        assert_eq!(takes(set), Ok(true));
    }
    let made_anew = |answer: Result<(), DecisionError>| {
        let told = answer.err().map(|error| error.to_string());
        let told = told.expect("it has no set there");
        assert!(told.contains("was made anew since"), "{told}");
    };
    for set in &before {
        made_anew(takes(set).map(drop));
        made_anew(set.peek("k", ()).wait().map(drop));
    }
    made_anew(before[0].check("k", ()).wait().map(drop));
    made_anew(before[1].check("unseen", ()).wait().map(drop));
    made_anew(before[0].check("unseen", ()).wait().map(drop));
    for set in &others {
        let left = set.peek("k", ()).wait().expect("an answer");
        assert_eq!(left.standing("calls").expect("it is there").remaining, 99);
    }
}
