//! The MariaDB store against the suite, on a server of each test's own.

mod support;

use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::suite;

/// The subject, or an end of the test where there is no server.
macro_rules! servers {
    () => {
        match MariadbServer::start() {
            Some(server) => support::subject(support::open::mariadb, server.url(), server),
            None => return,
        }
    };
}

suite!(servers!());
