//! Asks of several processes that wait in one line; and the server's own locks.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{ask, number, open, options};
use tidegate::{Ask, Limit, LimitSet};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::waiting::{Lines, Move};
use tidegate_conformance::waiting_suite;
use tidegate_contract::Store;
use tidegate_mysql::{Clock, MysqlStore};

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Server(Arc<MariadbServer>);

impl Lines for Server {
    fn start() -> Option<Self> {
        let server = MariadbServer::start()?;
        // The tables are there before anybody stands in them.
        drop(open(&server, Clock::Server));
        Some(Self(Arc::new(server)))
    }

    fn address(&self) -> String {
        self.0.url()
    }

    fn open(address: &str) -> Arc<dyn Store> {
        let store = MysqlStore::open(address, options(Clock::Server));
        Arc::new(store.expect("a server"))
    }

    fn standing(&self) -> usize {
        number(&self.0, "SELECT COUNT(DISTINCT turn) FROM tidegate_turns") as usize
    }

    /// A place has one record here: the suite's keys have no ancestors.
    fn watch(&self) -> Box<dyn FnOnce() -> Vec<Move>> {
        ask(
            &self.0,
            "CREATE TABLE moves (number SERIAL, came BOOL NOT NULL, turn BINARY(16) NOT NULL); \
             CREATE TRIGGER came AFTER INSERT ON tidegate_turns FOR EACH ROW \
                INSERT INTO moves (came, turn) VALUES (TRUE, NEW.turn); \
             CREATE TRIGGER went AFTER DELETE ON tidegate_turns FOR EACH ROW \
                INSERT INTO moves (came, turn) VALUES (FALSE, OLD.turn)",
        );
        let server = Arc::clone(&self.0);
        Box::new(move || {
            let moves = "SELECT CONCAT(came, ' ', HEX(turn)) FROM moves ORDER BY number";
            let moves = ask(&server, moves);
            moves.iter().map(|line| as_move(line)).collect()
        })
    }

    fn cut(&self) {
        let all = "SELECT id FROM information_schema.processlist WHERE id <> connection_id() \
            AND user = 'root'";
        for id in ask(&self.0, all) {
            ask(&self.0, &format!("KILL {id}"));
        }
    }
}

fn as_move(line: &str) -> Move {
    match line.split_once(' ').expect("two words") {
        ("1", turn) => Move::Came(turn.to_owned()),
        (_, turn) => Move::Went(turn.to_owned()),
    }
}

waiting_suite!(Server);

/// Two stand in line for a slot; the server forgets both, as if they had stood still
/// for too long. They have places again, and are served.
#[test]
fn who_has_lost_its_place_takes_another() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let slot = || Limit::concurrency("slot", 1);
    let set = |store| LimitSet::builder().name("t").limit(slot()).store(store);
    let set = set(Server::open(&server.url())).build().expect("sound");
    let held = set.try_acquire("k", Ask::default()).expect("an answer");
    let mut held = held.granted().expect("it is free");
    let standing = || number(&server, "SELECT COUNT(*) FROM tidegate_turns");
    std::thread::scope(|scope| {
        let wait = || {
            let granted = set.acquire("k", Ask::default().within(PATIENCE));
            let mut lease = granted.expect("an answer").granted().expect("its turn");
            lease.release().expect("held");
        };
        let waiting = [scope.spawn(wait), scope.spawn(wait)];
        while standing() < 2 {}
        ask(&server, "DELETE FROM tidegate_turns");
        while standing() < 2 {}
        held.release().expect("held");
        for one in waiting {
            one.join().expect("served");
        }
    });
    assert_eq!(standing(), 0);
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime")
}

#[test]
fn a_native_lock_has_one_holder_until_it_is_released_or_its_connection_ends() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let (one, other) = (open(&server, Clock::Server), open(&server, Clock::Server));
    let runtime = runtime();
    let none = Duration::ZERO;
    let mut held = runtime
        .block_on(one.lock("name", none))
        .expect("an answer")
        .expect("free");
    assert!(runtime.block_on(held.is_held()).expect("an answer"));
    assert!(
        runtime
            .block_on(other.lock("name", none))
            .expect("an answer")
            .is_none()
    );
    assert!(
        runtime
            .block_on(other.lock("another", none))
            .expect("an answer")
            .is_some()
    );
    runtime.block_on(held.release()).expect("an answer");
    let mut held = runtime
        .block_on(other.lock("name", none))
        .expect("an answer")
        .expect("free");
    for id in ask(
        &server,
        "SELECT id FROM information_schema.processlist WHERE id <> connection_id()",
    ) {
        ask(&server, &format!("KILL {id}"));
    }
    let free_again = runtime.block_on(one.lock("name", PATIENCE));
    assert!(free_again.expect("an answer").is_some());
    assert!(!runtime.block_on(held.is_held()).unwrap_or(false));
}
