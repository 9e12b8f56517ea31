//! Leases that end with the store that made them.

mod support;

use std::time::Duration;

use support::{Fixture, SECOND, machine_time, open, options, plan, slots, sql};
use tidegate_conformance::Hole;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::{Clock, Options, PostgresStore};
use tidegate_store::core::Span;
use tidegate_store::{Detail, Ending, Reply, Terms, Verb};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

fn open_ending(server: &PostgresServer) -> PostgresStore {
    let options = Options {
        leases_end_with_session: true,
        ..options(Clock::Server)
    };
    PostgresStore::open(&server.url(), options).expect("a server")
}

/// The lease of one key of a tree; asked for by another.
#[test]
fn a_lease_whose_holder_is_gone_expires_when_it_is_in_the_way() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let rules = [(0, slots(1)), (1, slots(1))];
    let fixture = |store: &PostgresStore, leases| {
        let fixture = Fixture::at(store, "t", plan(0, 2, &rules), machine_time());
        fixture.number_from(leases);
        fixture
    };
    let (holder, other) = (open_ending(&server), open(&server, Clock::Server));
    let held = fixture(&holder, 0).lease(b"a/one", &[1, 1], 600 * SECOND);
    let held = held.lease.expect("it is free");
    let asking = fixture(&other, 100);
    for _ in 0..20 {
        let refused = asking.lease(b"a/two", &[1, 1], 600 * SECOND);
        assert!(refused.lease.is_none(), "its holder is there");
    }
    drop(holder);
    // The server sees a connection end when it comes to it.
    let granted = (0..100_000).find_map(|_| asking.lease(b"a/two", &[1, 1], 600 * SECOND).lease);
    assert!(granted.expect("it is free again").fence > held.fence);
    assert_eq!(asking.left(b"a/one"), [0, 1]);
    let late = asking.end(b"a/one", held.id, Ending::Release);
    assert!(late.expect("it is remembered").expired);
    assert_eq!(asking.left(b"a/two"), [0, 0], "another's is not given back");
}

/// The server had ended the session, and the store did not know: a way that loses
/// everything ends no connection, and no more does a failover. Each lease that it was granted
/// from then on was taken for one whose holder is gone, and given to whoever asked next.
#[test]
fn a_lease_after_a_session_was_lost_unheard_ends_with_another() {
    lose_a_session_unheard(|_| None);
}

/// Who freed what that session had held, under another key, had its lock for a moment: it
/// seemed to last, and the lease that was granted then was given to whoever asked next, too.
#[test]
fn a_session_is_over_also_while_others_free_what_it_held() {
    lose_a_session_unheard(|server| Some(free_at_leisure(server)));
}

/// What is freed of what the session held under the first key, and not yet committed.
fn free_at_leisure(server: &PostgresServer) -> (Runtime, Client) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let client = runtime.block_on(async {
        let connected = tokio_postgres::connect(&server.url(), NoTls).await;
        let (client, connection) = connected.expect("a server");
        tokio::spawn(connection);
        client.batch_execute("BEGIN").await.expect("a transaction");
        let free = "SELECT tidegate.free_ended(tab, key, tidegate.clock()) FROM tidegate.rows
            WHERE key = 'first'";
        let freed = client.query_one(free, &[]).await.expect("an answer");
        assert!(freed.get::<_, bool>(0), "its holder is gone");
        client
    });
    (runtime, client)
}

fn lose_a_session_unheard(meanwhile: impl Fn(&PostgresServer) -> Option<(Runtime, Client)>) {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let way = Hole::to(server.port());
    let options = Options {
        leases_end_with_session: true,
        deadline: Duration::from_secs(2),
        ..options(Clock::Server)
    };
    let through = server.url();
    let through = through.replace(&server.port().to_string(), &way.port().to_string());
    let holder = PostgresStore::open(&through, options).expect("a server");
    let other = open(&server, Clock::Server);
    let fixture = |store: &PostgresStore, leases| {
        let fixture = Fixture::at(store, "t", plan(0, 1, &[(0, slots(1))]), machine_time());
        fixture.number_from(leases);
        fixture
    };
    let (holding, asking) = (fixture(&holder, 0), fixture(&other, 100));
    assert!(holding.lease(b"first", &[1], 600 * SECOND).lease.is_some());
    way.swallow();
    // As the server does when it finds nobody there.
    let ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'";
    sql(&server, ended);
    while sql(
        &server,
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
    ) != ["0"]
    {}
    let other_work = meanwhile(&server);
    // Whoever finds a connection lost is told so; the next has a new one.
    let now = holding.now();
    let granted = (10..1_000).any(|id| {
        let terms = Terms {
            id,
            expires_at: now + Span::from_secs(600),
            idempotency: None,
            least: None,
        };
        let take = Verb::Take {
            amounts: &[1],
            lease: Some(terms),
            detail: Detail::Verdict,
        };
        let answer = holding.execute(b"k", take);
        answer.is_ok_and(|reply| reply.new_lease().is_some())
    });
    assert!(granted, "a store that is reached again");
    if let Some((runtime, client)) = other_work {
        let done = runtime.block_on(client.batch_execute("COMMIT"));
        done.expect("an end");
    }
    for _ in 0..20 {
        let refused = asking.lease(b"k", &[1], 600 * SECOND);
        assert!(refused.lease.is_none(), "its holder is there");
    }
}

#[test]
fn a_lease_of_a_store_that_does_not_ask_for_it_outlives_the_store() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let limits = || plan(0, 1, &[(0, slots(1))]);
    let (holder, other) = (open(&server, Clock::Server), open(&server, Clock::Server));
    let fixture = Fixture::at(&holder, "t", limits(), machine_time());
    assert!(fixture.lease(b"k", &[1], 600 * SECOND).lease.is_some());
    drop((fixture, holder));
    let asking = Fixture::at(&other, "t", limits(), machine_time());
    asking.number_from(100);
    assert!(asking.lease(b"k", &[1], 600 * SECOND).lease.is_none());
}

#[test]
fn leases_that_nobody_asks_about_are_ended_by_pruning() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (holder, other) = (open_ending(&server), open(&server, Clock::Server));
    let fixture = Fixture::at(&holder, "t", plan(0, 1, &[(0, slots(1))]), machine_time());
    assert!(fixture.lease(b"k", &[1], 600 * SECOND).lease.is_some());
    let live = "SELECT count(*) FROM tidegate.leases WHERE stage = 0";
    assert_eq!(other.prune(), Ok(0));
    assert_eq!(sql(&server, live), ["1"]);
    drop((fixture, holder));
    let ended = (0..10_000).any(|_| other.prune().expect("an answer") > 0);
    assert!(ended);
    assert_eq!(sql(&server, live), ["0"]);
}

/// The lease of a holder that was gone was found again and again by whoever was refused
/// after that all the same, until its call was deeper than the server allows.
#[test]
fn who_is_refused_after_a_holder_is_gone_is_told_so_at_once() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let options = Options {
        leases_end_with_session: true,
        ..options(Clock::Caller)
    };
    let holder = PostgresStore::open(&server.url(), options).expect("a server");
    let other = open(&server, Clock::Caller);
    let fixture = |store: &PostgresStore, leases| {
        let fixture = Fixture::at(store, "t", plan(0, 1, &[(0, slots(2))]), machine_time());
        fixture.number_from(leases);
        fixture
    };
    assert!(
        fixture(&holder, 0)
            .lease(b"k", &[1], 600 * SECOND)
            .lease
            .is_some()
    );
    let asking = fixture(&other, 100);
    assert!(asking.lease(b"k", &[1], 600 * SECOND).lease.is_some());
    drop(holder);
    let sessions = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    while sql(&server, sessions) != ["0"] {}
    let refused = asking.lease(b"k", &[2], 600 * SECOND);
    assert!(refused.lease.is_none(), "one of two is held");
    assert!(asking.lease(b"k", &[1], 600 * SECOND).lease.is_some());
}

/// Of two leases of one idempotency key the older was looked at, whose holder was gone: a request
/// that was made again, since its answer was lost, was given a lease more each time.
#[test]
fn an_ask_that_is_repeated_has_one_lease_beside_that_of_a_holder_who_is_gone() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (first, second) = (open_ending(&server), open_ending(&server));
    let ask = |store: &PostgresStore, id| {
        let fixture = Fixture::at(store, "t", plan(0, 1, &[(0, slots(3))]), machine_time());
        let terms = Terms {
            id,
            expires_at: fixture.now() + Span::from_secs(600),
            idempotency: Some(b"one job"),
            least: None,
        };
        let take = Verb::Take {
            amounts: &[1],
            lease: Some(terms),
            detail: Detail::Verdict,
        };
        let reply = fixture.execute(b"k", take).expect("an answer");
        let Reply::Decision(decision) = reply else {
            panic!("{reply:?}");
        };
        let lease = decision.lease.expect("there is room for three");
        (lease.id, lease.repeated)
    };
    assert_eq!(ask(&first, 1), (1, false));
    assert_eq!(ask(&second, 2), (1, true), "its holder is there");
    drop(first);
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid =
        (SELECT session FROM tidegate.leases WHERE id = 1)::oid";
    while sql(&server, held) != ["0"] {}
    assert_eq!(ask(&second, 3), (3, false));
    assert_eq!(ask(&second, 4), (3, true));
    assert_eq!(ask(&second, 5), (3, true));
}
