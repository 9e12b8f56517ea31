//! The MariaDB store against the suite, on a server that the tests share.

mod support;

use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::suite;

use support::Shared;

static SERVERS: Shared<MariadbServer> = Shared::new();

/// The subject, or an end of the test where there is no server.
macro_rules! servers {
    () => {
        match SERVERS.get(MariadbServer::start) {
            Some(servers) => support::subject(support::open::mariadb, servers.url(), servers),
            None => return,
        }
    };
}

suite!(servers!());
