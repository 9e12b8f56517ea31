//! The Redis store by scripts, as on a server that allows no functions, against
//! the suite: the sources are the same, so fewer random commands are enough.

mod support;

use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::suite;

use support::Shared;

/// Random commands, and random walks.
const COMMANDS: usize = 4_000;
const WALKS: u32 = 20;

static SERVERS: Shared<RedisServer> = Shared::new();

/// The subject, or an end of the test where there is no server.
macro_rules! servers {
    () => {
        match SERVERS.get(RedisServer::start) {
            Some(servers) => {
                support::subject(support::open::redis_by_scripts, servers.url(), servers)
                    .with_random_commands(COMMANDS)
                    .with_most_walks(WALKS)
            }
            None => return,
        }
    };
}

suite!(servers!());
