//! The PostgreSQL store against the suite, on a server that the tests share.

mod support;

use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::suite;

use support::Shared;

static SERVERS: Shared<PostgresServer> = Shared::new();

/// The subject, or an end of the test where there is no server.
macro_rules! servers {
    () => {
        match SERVERS.get(PostgresServer::start) {
            Some(servers) => support::subject(support::open::postgres, servers.url(), servers),
            None => return,
        }
    };
}

suite!(servers!());
