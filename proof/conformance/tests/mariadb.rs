//! The MariaDB store against the suite, on a server that the tests share.

mod support;

use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::{differential, suite};

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

/// It is the script in which a key's limits are lowered, nobody asks for the key, and a listing comes
/// when those of before would have forgotten it: it was left out.
#[test]
fn a_key_is_listed_by_the_limits_of_now_though_nobody_has_asked_for_it_since() {
    assert!(differential(&servers!(), 25_769_803_792, 1) > 0);
}
