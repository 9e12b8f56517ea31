//! What waiting in a process costs the server.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::options;
use tidegate::{Limit, LimitSet, Request};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::{Clock, Options, PostgresStore};

/// Many wait in a process that has two connections, and the one that listens; the
/// server is left to others.
#[test]
fn who_waits_holds_no_connection() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let options = Options {
        connections: 2,
        ..options(Clock::Server)
    };
    let store = PostgresStore::open(&server.url(), options);
    let store = Arc::new(store.expect("a server"));
    let builder = LimitSet::builder().name("gpus").store(store);
    let set = builder.limit(Limit::concurrency("gpu", 1)).build();
    let set = set.expect("a sound set");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let acquire = || {
            let set = set.clone();
            async move {
                let asked = set.acquire("k", Request::default()).await;
                asked.expect("an answer").granted()
            }
        };
        let held = acquire().await;
        // Each gives back what it is granted.
        let take_turns = (0..40).map(|_| {
            let turn = acquire();
            tokio::spawn(async move { turn.await.is_some() })
        });
        let waiting: Vec<_> = take_turns.collect();
        let standing = || server.ask("SELECT count(*) FROM tidegate.waiters");
        while standing() != ["40"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidegate'";
        let open: usize = server.ask(open)[0].parse().expect("a number");
        // Two that decide, one that hears of turns, one that hears of definitions.
        assert!(open <= 4, "{open} connections");
        drop(held);
        for granted in waiting {
            assert!(granted.await.expect("it ends"));
        }
    });
}
