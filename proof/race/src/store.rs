//! What gateways share, and what survives that it is killed.

use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::{DURABLE, RedisServer};

/// A store that can be killed and started again.
#[derive(Debug)]
pub enum Store {
    /// With what the pages ask for where nothing may be forgotten: an append-only file that is
    /// written through for every answer.
    Redis(RedisServer),
    /// As it is installed.
    Postgres(PostgresServer),
}

impl Store {
    /// One by its name, `redis` or `postgres`; `None`, with the reason printed, where this machine
    /// has none.
    ///
    /// # Errors
    /// If there is no such store.
    pub fn open(name: &str) -> Result<Option<Self>, String> {
        match name {
            "redis" => Ok(RedisServer::start_with(&DURABLE).map(Self::Redis)),
            "postgres" => Ok(PostgresServer::start().map(Self::Postgres)),
            other => Err(format!("there is no `{other}`; write redis or postgres")),
        }
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres(server) => server.url(),
        }
    }

    /// Kills it with SIGKILL, and starts it again with what it has kept.
    pub fn restart(&mut self) {
        match self {
            Self::Redis(server) => {
                server.kill();
                server.start_again();
            }
            Self::Postgres(server) => {
                server.kill();
                server.start_again();
            }
        }
    }
}
