//! The Redis store against the suite, on a cluster that the tests share.

mod support;

use tidegate_conformance::redis_server::RedisCluster;
use tidegate_conformance::suite;

use support::Shared;

static SERVERS: Shared<RedisCluster> = Shared::new();

/// The subject, or an end of the test where there is no server.
macro_rules! servers {
    () => {
        match SERVERS.get(RedisCluster::start) {
            Some(servers) => support::subject(support::open::redis, servers.url(), servers),
            None => return,
        }
    };
}

suite!(servers!());
