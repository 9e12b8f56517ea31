//! The Redis store against the suite, on a Valkey of each test's own.

mod support;

use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::suite;

/// The subject, or an end of the test where there is no server.
macro_rules! servers {
    () => {
        match RedisServer::start_valkey() {
            Some(servers) => support::subject(support::open::redis, servers.url(), servers),
            None => return,
        }
    };
}

suite!(servers!());
