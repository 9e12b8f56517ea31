//! Asks of several processes that wait in one line.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{open, options, sql};
use tidegate::{Ask, Limit, LimitSet};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::waiting::{Lines, Move};
use tidegate_conformance::waiting_suite;
use tidegate_contract::Store;
use tidegate_postgres::{Clock, Options, PostgresStore};

/// Notes who gets a place, and who has none any more.
const WATCH: &str = "CREATE TABLE IF NOT EXISTS public.moves (
        number bigserial, came boolean NOT NULL, turn text NOT NULL);
    CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.moves (came, turn)
        VALUES (TG_OP = 'INSERT', CASE TG_OP WHEN 'INSERT' THEN NEW.turn ELSE OLD.turn END::text);
        RETURN NULL;
    END $$;
    CREATE TRIGGER note AFTER INSERT OR DELETE ON tidegate.waiters
        FOR EACH ROW EXECUTE FUNCTION public.note()";

struct Server(Arc<PostgresServer>);

impl Lines for Server {
    fn start() -> Option<Self> {
        let server = PostgresServer::start()?;
        // The schema is there before anybody stands in it.
        drop(open(&server, Clock::Server));
        Some(Self(Arc::new(server)))
    }

    fn address(&self) -> String {
        self.0.url()
    }

    fn open(address: &str) -> Arc<dyn Store> {
        let store = PostgresStore::open(address, options(Clock::Server));
        Arc::new(store.expect("a server"))
    }

    fn standing(&self) -> usize {
        let alive = "SELECT count(*) FROM tidegate.waiters";
        ask(&self.0, alive)[0].parse().expect("a number")
    }

    fn watch(&self) -> Box<dyn FnOnce() -> Vec<Move>> {
        ask(&self.0, WATCH);
        let server = Arc::clone(&self.0);
        Box::new(move || {
            let moves = "SELECT came, turn FROM public.moves ORDER BY number";
            let moves = ask(&server, moves);
            moves.iter().map(|line| as_move(line)).collect()
        })
    }

    fn cut(&self) {
        let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'tidegate'";
        assert!(ask(&self.0, all).len() > 1);
    }
}

fn as_move(line: &str) -> Move {
    match line.split_once(' ').expect("two words") {
        ("t", turn) => Move::Came(turn.to_owned()),
        (_, turn) => Move::Went(turn.to_owned()),
    }
}

/// As the owner, from within a runtime or without one.
fn ask(server: &PostgresServer, text: &str) -> Vec<String> {
    std::thread::scope(|scope| scope.spawn(|| sql(server, text)).join().expect("an answer"))
}

waiting_suite!(Server);

/// Many wait in a process that has two connections, and the one that listens; the
/// server is left to others.
#[test]
fn who_waits_holds_no_connection() {
    let Some(server) = Server::start() else {
        return;
    };
    let store = PostgresStore::open(
        &server.address(),
        Options {
            connections: 2,
            ..options(Clock::Server)
        },
    );
    let store = Arc::new(store.expect("a server"));
    let builder = LimitSet::builder().name("gpus").store(store);
    let set = builder.limit(Limit::concurrency("gpu", 1)).build();
    let set = set.expect("a sound set");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let acquire = || {
            let set = set.clone();
            async move {
                let asked = set.acquire_async("k", Ask::default()).await;
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
        while server.standing() < 40 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidegate'";
        let open: usize = ask(&server.0, open)[0].parse().expect("a number");
        assert!(open <= 3, "{open} connections");
        drop(held);
        for granted in waiting {
            assert!(granted.await.expect("it ends"));
        }
    });
}
