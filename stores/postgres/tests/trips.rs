//! Statements, counted by the server's own pg_stat_statements.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{Fixture, hourly, machine_time, options, plan, rate, slots, sql};
use tidegate::{Limit, LimitSet, Request};
use tidegate_conformance::TableExt as _;
use tidegate_conformance::lineage;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::{Clock, Options, PostgresStore};
use tidegate_store::block_on;
use tidegate_store::core::{Bucket, Rule, Span};
use tidegate_store::definitions::MOST_ANCESTORS;

fn server() -> Option<PostgresServer> {
    let server = PostgresServer::start_with(&[
        "shared_preload_libraries=pg_stat_statements",
        "pg_stat_statements.track=top",
        "pg_stat_statements.track_utility=on",
    ])?;
    sql(&server, "CREATE EXTENSION pg_stat_statements");
    Some(server)
}

/// What was asked since the last time: how often, and its beginning.
fn asked(server: &PostgresServer) -> Vec<String> {
    let found = sql(
        server,
        "SELECT calls, substring(query FROM 1 FOR 22) FROM pg_stat_statements
         WHERE query NOT LIKE '%pg_stat_statements%' ORDER BY 2",
    );
    sql(server, "SELECT pg_stat_statements_reset()");
    found
}

/// Whoever is the first to say a thing on a connection has it prepared.
fn fixture(
    server: &PostgresServer,
    levels: usize,
    rules: &[(usize, Rule)],
) -> (PostgresStore, Fixture) {
    let options = Options {
        connections: 1,
        ..options(Clock::Server)
    };
    let store = PostgresStore::open(&server.url(), options).expect("a server");
    let name = format!("{levels} {}", rules.len());
    let fixture = Fixture::at(&store, &name, plan(0, levels, rules), machine_time());
    (store, fixture)
}

/// A session that holds the lock of each row.
struct Lock {
    runtime: tokio::runtime::Runtime,
    session: tokio_postgres::Client,
}

impl Lock {
    fn of_all_rows(server: &PostgresServer) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        let session = runtime.block_on(async {
            let connected = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await;
            let (session, connection) = connected.expect("a server");
            tokio::spawn(connection);
            let lock = "BEGIN; SELECT FROM tidegate.rows FOR UPDATE";
            session.batch_execute(lock).await.expect("a lock");
            session
        });
        Self { runtime, session }
    }

    fn end(self) {
        let end = self.session.batch_execute("ROLLBACK");
        self.runtime.block_on(end).expect("an end");
    }
}

/// A refusal by itself takes no lock; together with others it waited for one, and for the disk.
#[test]
fn refusals_by_a_single_bucket_that_come_together_wait_for_no_lock() {
    let Some(server) = server() else { return };
    let store = PostgresStore::open(&server.url(), options(Clock::Server)).expect("a server");
    let one_an_hour = Bucket::new(1, Span::from_secs(3_600), 1).expect("a bucket");
    let limits = plan(0, 1, &[(0, Rule::Bucket(one_an_hour))]);
    let fixture = Fixture::at(&store, "t", limits, machine_time());
    assert!(fixture.admits(b"k", &[1]));
    let lock = Lock::of_all_rows(&server);
    for begun in fixture.takes_at_once(b"k", 50) {
        let reply = block_on(begun).expect("an answer");
        assert!(!reply.verdict().expect("a verdict").admitted());
    }
    lock.end();
}

/// Each was a statement that waited for the row behind all others.
#[test]
fn takes_of_one_key_that_come_while_two_are_under_way_are_one_statement() {
    let Some(server) = server() else { return };
    let store = PostgresStore::open(&server.url(), options(Clock::Server)).expect("a server");
    let rules = [(0, hourly(40)), (0, rate(1, 99))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    assert!(fixture.admits(b"k", &[1, 1]));
    let lock = Lock::of_all_rows(&server);
    asked(&server);
    let begun = fixture.takes_at_once(b"k", 50);
    lock.end();
    let admitted = begun.into_iter().map(|begun| {
        let reply = block_on(begun).expect("an answer");
        reply.verdict().expect("a verdict").admitted()
    });
    assert_eq!(admitted.filter(|&admitted| admitted).count(), 39);
    // Two by themselves and the rest together; fewer where the one before had not ended.
    let asked = asked(&server);
    assert!(
        asked.contains(&"1 SELECT tidegate.batch(".to_owned()),
        "{asked:?}"
    );
    let decisions = asked.iter().filter(|asked| asked.contains("tidegate."));
    let calls = decisions.filter_map(|asked| asked.split(' ').next()?.parse::<u32>().ok());
    assert!(calls.sum::<u32>() <= 3, "{asked:?}");
}

#[test]
fn a_batch_of_one_root_is_one_statement_for_each_250() {
    let Some(server) = server() else { return };
    let three = [(0, hourly(10_000)), (1, hourly(9)), (1, rate(1, 9))];
    for (levels, rules) in [
        (1, &[(0, rate(1, 100_000))][..]),
        (1, &[(0, rate(1, 100_000)), (0, rate(2, 100_000))]),
        (2, &three),
    ] {
        let (_store, fixture) = fixture(&server, levels, rules);
        assert_eq!(fixture.takes_together(2), 2);
        asked(&server);
        assert_eq!(fixture.takes_together(250), 250);
        assert_eq!(asked(&server), ["1 SELECT tidegate.batch("], "{levels}");
        assert_eq!(fixture.takes_together(501), 501);
        assert_eq!(asked(&server), ["3 SELECT tidegate.batch("], "{levels}");
    }
}

#[test]
fn a_definition_and_its_ancestors_are_one_statement() {
    let Some(server) = server() else { return };
    let (store, _) = fixture(&server, 1, &[(0, rate(1, 9))]);
    lineage::define(&store, "me");
    asked(&server);
    assert_eq!(lineage::read(&store, "me", &[0]).len(), 1 + MOST_ANCESTORS);
    assert_eq!(asked(&server), ["1 WITH RECURSIVE found ("]);
}

#[test]
fn a_command_is_one_statement_whatever_its_limits_and_ancestors() {
    let Some(server) = server() else { return };
    let one = [(0, rate(1, 9))];
    let five = [
        (0, rate(1, 9)),
        (0, rate(2, 9)),
        (0, hourly(9)),
        (0, slots(9)),
        (0, rate(7, 9)),
    ];
    let ancestors = [(0, rate(1, 9)), (1, hourly(9)), (2, slots(9))];
    let plain = [(0, rate(1, 9)), (0, rate(2, 9)), (0, slots(9))];
    let (decide, set) = ("SELECT tidegate.decide", "SELECT tidegate.take_s");
    for (levels, rules, take, lease) in [
        (1, &one[..], "SELECT tidegate.take_p", set),
        (1, &plain, set, set),
        (1, &five, decide, decide),
        (3, &ancestors, decide, decide),
    ] {
        let (_store, fixture) = fixture(&server, levels, rules);
        let amounts = vec![1; rules.len()];
        assert!(fixture.admits(b"a/b/c", &amounts));
        asked(&server);
        assert!(fixture.admits(b"a/b/c", &amounts));
        assert_eq!(asked(&server), [format!("1 {take}")]);
        assert!(
            fixture
                .lease(b"a/b/c", &amounts, 600_000_000)
                .lease
                .is_some()
        );
        assert_eq!(asked(&server), [format!("1 {lease}")]);
        assert_eq!(fixture.left(b"a/b/c").len(), rules.len());
        assert_eq!(asked(&server), [format!("1 {decide}")]);
    }
}

#[test]
fn a_refusal_is_one_statement_and_so_is_what_follows_a_change_of_limits() {
    let Some(server) = server() else { return };
    let (_store, mut fixture) = fixture(&server, 1, &[(0, rate(1, 9))]);
    assert!(fixture.admits(b"k", &[9]));
    assert_eq!(fixture.left(b"k").len(), 1);
    asked(&server);
    assert!(!fixture.admits(b"k", &[9]));
    assert_eq!(asked(&server).len(), 1);
    fixture.plan = plan(1, 1, &[(0, hourly(7))]);
    fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    asked(&server);
    assert_eq!(fixture.left(b"k").len(), 1);
    assert_eq!(asked(&server), ["1 SELECT tidegate.decide"]);
}

/// Who may wait, and need not, asks once, also where others in its process have
/// waited; who is refused and has no patience does, too.
#[test]
fn an_ask_that_may_wait_and_need_not_is_one_statement() {
    let Some(server) = server() else { return };
    let options = Options {
        connections: 1,
        ..options(Clock::Server)
    };
    let store = PostgresStore::open(&server.url(), options).expect("a server");
    let builder = LimitSet::builder().name("gpus").store(Arc::new(store));
    let set = builder.limit(Limit::concurrency("gpu", 1)).build();
    let set = set.expect("a sound set");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let acquire = |millis| {
        let ask = Request::default().within(Duration::from_millis(millis));
        let asked = runtime.block_on(set.acquire("k", ask));
        asked.expect("an answer").granted()
    };
    const ONE: [&str; 1] = ["1 SELECT tidegate.take_s"];
    drop(acquire(0));
    asked(&server);
    let held = acquire(60_000).expect("it is free");
    assert_eq!(asked(&server), ONE);
    assert!(acquire(0).is_none());
    assert_eq!(asked(&server), ONE);
    assert!(acquire(20).is_none());
    runtime
        .block_on(set.release("k", held.detach()))
        .expect("an answer");
    asked(&server);
    // The store listens from now on, and a first try is in line.
    let held = acquire(60_000).expect("it is free");
    assert_eq!(asked(&server), ONE);
    drop(held);
}
