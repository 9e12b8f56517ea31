//! Servers, and stores on them that wait for long where much is asked at once.

use std::time::Duration;

use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_postgres::PostgresStore;
use tidegate_redis::RedisStore;

const DEADLINE: Duration = Duration::from_secs(30);

/// None where this machine has none.
pub fn redis() -> Option<(RedisServer, RedisStore)> {
    let server = RedisServer::start()?;
    let options = tidegate_redis::Options {
        deadline: DEADLINE,
        ..Default::default()
    };
    let store = RedisStore::open(&server.url(), options).expect("a server");
    Some((server, store))
}

/// The same of PostgreSQL.
pub fn postgres() -> Option<(PostgresServer, PostgresStore)> {
    let server = PostgresServer::start()?;
    let options = tidegate_postgres::Options {
        deadline: DEADLINE,
        ..Default::default()
    };
    let store = PostgresStore::open(&server.url(), options).expect("a server");
    Some((server, store))
}
