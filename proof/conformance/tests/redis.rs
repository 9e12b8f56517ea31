//! The Redis store against the suite, on a server that the tests share.

mod support;

use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::{differential, suite};

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

/// It is the script in which the clock steps back by two hours while a slot is held, and what is refused
/// next goes the short way: that left the slot where it was, to come back a moment later.
#[test]
fn slots_that_a_step_back_moves_are_moved_also_by_what_is_refused() {
    assert!(differential(&servers!(), 25_769_803_922, 1) > 0);
}
