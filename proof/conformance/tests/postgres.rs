//! The PostgreSQL store against the suite, on a server of each test's own.

mod support;

use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::suite;

/// The subject, or an end of the test where there is no server.
macro_rules! servers {
    () => {
        match PostgresServer::start() {
            Some(server) => support::subject(support::open::postgres, server.url(), server),
            None => return,
        }
    };
}

suite!(servers!());
