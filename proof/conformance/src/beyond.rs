//! A server beyond a network, whichever it is, for tests that name it by its URL.

use std::any::Any;
use std::fmt;

use crate::dynamodb_server::DynamodbServer;
use crate::mariadb_server::MariadbServer;
use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;

/// A server, ended with all it has kept when this is dropped.
pub struct Beyond {
    /// Its address, as a store's URL.
    pub url: String,
    /// Where it listens on this machine.
    pub port: u16,
    /// Its process.
    pub pid: u32,
    _server: Box<dyn Any>,
}

impl Beyond {
    /// A Redis; `None`, with the reason printed, where there is none.
    #[must_use]
    pub fn redis() -> Option<Self> {
        let server = RedisServer::start()?;
        Some(Self::new(server.url(), server.port(), server.pid(), server))
    }

    /// A PostgreSQL; `None`, with the reason printed, where there is none.
    #[must_use]
    pub fn postgres() -> Option<Self> {
        let server = PostgresServer::start()?;
        Some(Self::new(server.url(), server.port(), server.pid(), server))
    }

    /// A MariaDB; `None`, with the reason printed, where there is none.
    #[must_use]
    pub fn mariadb() -> Option<Self> {
        let server = MariadbServer::start()?;
        Some(Self::new(server.url(), server.port(), server.pid(), server))
    }

    /// An emulator of DynamoDB; `None`, with the reason printed, where there is none.
    #[must_use]
    pub fn dynamodb() -> Option<Self> {
        let server = DynamodbServer::start()?;
        Some(Self::new(server.url(), server.port(), server.pid(), server))
    }

    fn new(url: String, port: u16, pid: u32, server: impl Any) -> Self {
        let server = Box::new(server);
        Self {
            url,
            port,
            pid,
            _server: server,
        }
    }
}

impl fmt::Debug for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beyond")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// A store's URL with these options more, as `deadline=60s`.
#[must_use]
pub fn with_options(url: &str, options: &str) -> String {
    let separator = match (options, url.contains('?')) {
        ("", _) => "",
        (_, true) => "&",
        (_, false) => "?",
    };
    format!("{url}{separator}{options}")
}
