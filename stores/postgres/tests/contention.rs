//! Many clients at once: never more than the core grants, and nobody waits for
//! somebody who waits for him.

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::{Fixture, SECOND, hourly, machine_time, open, options, plan, rate, slots};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::{Clock, Options, PostgresStore};
use tidegate_store::core::{Bucket, Rule, Span};
use tidegate_store::{Ending, Store, StoreError, Verb};

const CLIENTS: u64 = 8;

/// Runs `work` for each client with a store of its own.
fn at_once(server: &PostgresServer, work: impl Fn(&PostgresStore, u64) + Sync) {
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let work = &work;
            scope.spawn(move || work(&open(server, Clock::Server), client));
        }
    });
}

fn fixture(store: &dyn Store, levels: usize, rules: &[(usize, Rule)]) -> Fixture {
    Fixture::at(store, "t", plan(0, levels, rules), machine_time())
}

/// A bucket of which a unit comes back in more than a day.
fn slow(burst: u64) -> Rule {
    Bucket::new(1, Span::from_secs(100_000), burst)
        .map_or_else(|_| panic!("a sound rate"), Rule::Bucket)
}

#[test]
fn eight_clients_of_one_hot_key_are_granted_what_it_has_and_no_more() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    // A bucket by its one UPDATE, and a window by the general way.
    for (name, rule) in [("bucket", slow(300)), ("window", hourly(300))] {
        let admitted = AtomicU64::new(0);
        at_once(&server, |store, _| {
            let fixture = Fixture::at(store, name, plan(0, 1, &[(0, rule)]), machine_time());
            for _ in 0..60 {
                if fixture.admits(b"hot", &[1]) {
                    admitted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(admitted.load(Ordering::Relaxed), 300, "of a {name}");
    }
}

/// Takes, leases and their ends of a plain set find the row and the lease first, and write
/// them where they were: whoever waited for the lock meanwhile writes what there is by then.
#[test]
fn a_lease_that_eight_clients_settle_at_once_is_settled_once_and_no_take_is_lost() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    const LEASES: u64 = 30;
    let rules = [(0, slow(1_000)), (0, slots(100))];
    let store = open(&server, Clock::Server);
    let first = fixture(&store, 1, &rules);
    for _ in 0..LEASES {
        assert!(first.lease(b"hot", &[5, 1], 600 * SECOND).lease.is_some());
    }
    let settled = AtomicU64::new(0);
    at_once(&server, |store, _| {
        let fixture = fixture(store, 1, &rules);
        for id in 1..=u128::from(LEASES) {
            match fixture.end(b"hot", id, Ending::Settle(&[Some(2), None])) {
                Ok(_) => drop(settled.fetch_add(1, Ordering::Relaxed)),
                Err(error) => assert_eq!(error, StoreError::UnknownLease),
            }
            assert!(fixture.admits(b"hot", &[1, 0]));
        }
    });
    assert_eq!(settled.load(Ordering::Relaxed), LEASES);
    let takes = CLIENTS * LEASES;
    assert_eq!(first.left(b"hot"), [1_000 - 2 * LEASES - takes, 100]);
}

/// Each takes of all levels, in an order of keys of its own, and gives slots
/// back; some forget keys, some look.
#[test]
fn slots_are_conserved_and_no_two_clients_lock_each_other_out() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let rules = [(0, slots(5)), (1, rate(1_000, 1_000)), (2, slots(2))];
    at_once(&server, |store, client| {
        let fixture = fixture(store, 3, &rules);
        fixture.number_from(u128::from(client) * 1_000);
        for round in 0..40 {
            let key = format!("root/{}/{}", (client + round) % 3, (client * round) % 4);
            let decision = fixture.lease(key.as_bytes(), &[1, 1, 1], 600 * SECOND);
            let left = fixture.left(key.as_bytes());
            assert!(left[0] <= 5 && left[2] <= 2);
            if let Some(lease) = decision.lease {
                assert!(left[0] < 5 && left[2] < 2, "held slots are not free");
                let ended = fixture.end(key.as_bytes(), lease.id, Ending::Release);
                ended.expect("it is held");
            }
            if round % 8 == client {
                fixture
                    .execute(key.as_bytes(), Verb::Reset)
                    .expect("an answer");
            }
        }
    });
    let fixture = fixture(&open(&server, Clock::Server), 3, &rules);
    for key in ["root/0/0", "root/1/1", "root/2/3"] {
        let left = fixture.left(key.as_bytes());
        assert_eq!((left[0], left[2]), (5, 2), "all came back");
    }
}

/// Those who asked for one root whose lock somebody held took all connections: every
/// other set was without, and the deadlines that passed were taken for the server's
/// failure.
#[test]
fn who_asks_for_a_root_that_is_locked_keeps_nobody_else_from_the_server() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let hasty = Options {
        deadline: Duration::from_secs(6),
        ..options(Clock::Server)
    };
    let store = PostgresStore::open(&server.url(), hasty).expect("a server");
    let limits = [(0, hourly(1_000))];
    let slow = Fixture::at(&store, "slow", plan(0, 1, &limits), machine_time());
    let quick = Fixture::at(&store, "quick", plan(0, 1, &limits), machine_time());
    assert!(slow.admits(b"hot", &[1]) && quick.admits(b"k", &[1]));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let locked = runtime.block_on(async {
        let connected = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await;
        let (client, connection) = connected.expect("a server");
        tokio::spawn(connection);
        let lock = "BEGIN; SELECT * FROM tidegate.rows WHERE key = 'hot' FOR UPDATE";
        client.batch_execute(lock).await.expect("a lock");
        client
    });
    std::thread::scope(|scope| {
        let asks: Vec<_> = (0..24)
            .map(|_| scope.spawn(|| slow.take(b"hot", &[1])))
            .collect();
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while server.ask(waiting) == ["0"] {}
        while asks.iter().any(|ask| !ask.is_finished()) {
            let told = quick.take(b"k", &[1]);
            assert!(told.is_ok(), "{told:?}");
            assert!(slow.take(b"other", &[1]).is_ok(), "of the same set, too");
        }
        for ask in asks {
            let told = ask.join().expect("an answer");
            assert!(matches!(told, Err(StoreError::Busy(_))), "{told:?}");
        }
    });
    runtime
        .block_on(locked.batch_execute("ROLLBACK"))
        .expect("an end");
    assert!(
        slow.admits(b"hot", &[1]),
        "nothing was done, and it goes on"
    );
    assert_eq!(slow.left(b"hot"), [998]);
}
