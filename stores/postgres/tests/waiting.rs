//! Asks of several processes that wait in one line.

mod support;

use std::sync::Arc;

use support::{open, options, sql};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::waiting::{Lines, Move};
use tidegate_conformance::waiting_suite;
use tidegate_contract::Store;
use tidegate_postgres::{Clock, PostgresStore};

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
