//! The line of a MariaDB: a table.

use std::sync::Arc;
use std::time::Duration;

use tidegate_conformance::mariadb_server::MariadbServer;

use super::{Lines, Move, opened};

pub struct Server(Arc<MariadbServer>);

impl Lines for Server {
    const GIVEN_UP: Duration = Duration::from_secs(3);

    fn start() -> Option<Self> {
        let server = MariadbServer::start()?;
        // The tables are there before anybody stands in them.
        let server = Self(Arc::new(server));
        drop(opened(&server));
        Some(server)
    }

    fn url(&self) -> String {
        self.0.url()
    }

    fn standing(&self) -> usize {
        let standing = self
            .0
            .ask("SELECT COUNT(DISTINCT turn) FROM tidegate_turns");
        standing[0].parse().expect("a number")
    }

    /// A place has one record here: the suite's keys have no ancestors.
    fn watch(&self) -> Box<dyn FnOnce() -> Vec<Move>> {
        self.0.ask(
            "CREATE TABLE moves (number SERIAL, came BOOL NOT NULL, turn BINARY(16) NOT NULL); \
             CREATE TRIGGER came AFTER INSERT ON tidegate_turns FOR EACH ROW \
                INSERT INTO moves (came, turn) VALUES (TRUE, NEW.turn); \
             CREATE TRIGGER went AFTER DELETE ON tidegate_turns FOR EACH ROW \
                INSERT INTO moves (came, turn) VALUES (FALSE, OLD.turn)",
        );
        let server = Arc::clone(&self.0);
        Box::new(move || {
            let moves = "SELECT CONCAT(came, ' ', HEX(turn)) FROM moves ORDER BY number";
            let moves = server.ask(moves);
            moves.iter().map(|line| as_move(line)).collect()
        })
    }

    fn cut(&self) {
        let all = "SELECT id FROM information_schema.processlist WHERE id <> connection_id() \
            AND user = 'root'";
        for id in self.0.ask(all) {
            // One that was idle may have ended by itself since.
            if let Err(trouble) = self.0.try_ask(&format!("KILL {id}")) {
                assert!(trouble.contains("Unknown thread id"), "{trouble}");
            }
        }
    }
}

fn as_move(line: &str) -> Move {
    match line.split_once(' ').expect("two words") {
        ("1", turn) => Move::Came(turn.to_owned()),
        (_, turn) => Move::Went(turn.to_owned()),
    }
}
