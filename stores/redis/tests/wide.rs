//! Numbers of every size.

mod support;

use support::open;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::wide;
use tidegate_contract::core::Timestamp;
use tidegate_redis::Clock;

/// Instants from 2^53 on are "never" to the script.
fn cut(at: Timestamp) -> Timestamp {
    if at.as_micros() >= 1 << 53 {
        return Timestamp::MAX;
    }
    at
}

#[test]
fn numbers_of_every_size_are_computed_to_the_last_unit() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    wide(&open(&server, Clock::Caller), cut);
}
