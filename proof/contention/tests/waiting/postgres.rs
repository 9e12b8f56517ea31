//! The line of a PostgreSQL: a table.

use std::sync::Arc;
use std::time::Duration;

use tidegate_conformance::postgres_server::PostgresServer;

use super::{Lines, Move, opened};

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

pub struct Server(Arc<PostgresServer>);

impl Lines for Server {
    const GIVEN_UP: Duration = Duration::from_secs(8);

    fn start() -> Option<Self> {
        let server = PostgresServer::start()?;
        // The schema is there before anybody stands in it.
        let server = Self(Arc::new(server));
        drop(opened(&server));
        Some(server)
    }

    fn url(&self) -> String {
        self.0.url()
    }

    fn standing(&self) -> usize {
        let alive = "SELECT count(*) FROM tidegate.waiters";
        self.0.ask(alive)[0].parse().expect("a number")
    }

    fn watch(&self) -> Box<dyn FnOnce() -> Vec<Move>> {
        self.0.ask(WATCH);
        let server = Arc::clone(&self.0);
        Box::new(move || {
            let moves = "SELECT came, turn FROM public.moves ORDER BY number";
            let moves = server.ask(moves);
            moves.iter().map(|line| as_move(line)).collect()
        })
    }

    fn cut(&self) {
        let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'tidegate'";
        assert!(self.0.ask(all).len() > 1);
    }
}

fn as_move(line: &str) -> Move {
    match line.split_once('|').expect("two words") {
        ("t", turn) => Move::Came(turn.to_owned()),
        (_, turn) => Move::Went(turn.to_owned()),
    }
}
