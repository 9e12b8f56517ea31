//! What the tests share: a store on a server, and words for it.
#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

pub use tidegate_conformance::fixture::*;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_mysql::{Clock, MysqlStore, Options};

pub fn options(clock: Clock) -> Options {
    Options {
        clock,
        deadline: std::time::Duration::from_secs(30),
        ..Options::default()
    }
}

pub fn open(server: &MariadbServer, clock: Clock) -> MysqlStore {
    MysqlStore::open(&server.url(), options(clock)).expect("a server")
}

/// A number that the server says.
pub fn number(server: &MariadbServer, sql: &str) -> u64 {
    let said = server.ask(sql);
    let last = said.first().and_then(|line| line.split('\t').next_back());
    last.and_then(|word| word.parse().ok()).expect("a number")
}
