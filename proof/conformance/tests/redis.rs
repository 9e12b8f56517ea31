//! The Redis store against the suite, on a server that the tests share.

mod support;

use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::suite;

use support::Shared;

static SERVERS: Shared<RedisServer> = Shared::new();

/// The subject, or an end of the test where there is no server.
macro_rules! servers {
    () => {
        match SERVERS.get(RedisServer::start) {
            Some(servers) => support::subject(support::open::redis, servers.url(), servers),
            None => return,
        }
    };
}

suite!(servers!());
