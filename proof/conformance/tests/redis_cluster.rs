//! The Redis store against the suite, on a cluster of each test's own.

mod support;

use tidegate_conformance::redis_server::RedisCluster;
use tidegate_conformance::suite;

/// The subject, or an end of the test where there is no server.
macro_rules! servers {
    () => {
        match RedisCluster::start() {
            Some(servers) => support::subject(support::open::redis, servers.url(), servers),
            None => return,
        }
    };
}

suite!(servers!());
