//! Numbers of every size.

mod support;

use support::open;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::wide;
use tidegate_redis::Clock;
use tidegate_store::core::Timestamp;

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

/// A server for a machine of 32 bits made a C `long` of each instant before it wrote it down:
/// every row was to be gone by 1970.
#[test]
fn no_number_is_written_as_a_c_long() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/lua"));
    let files = files
        .expect("the scripts")
        .map(|file| file.expect("a script").path());
    let wrong: Vec<_> = files
        .filter(|file| {
            let text = std::fs::read_to_string(file).expect("a text");
            text.contains("'%d") || text.contains("'%i")
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "`%.0f` writes a double as it is: {wrong:?}"
    );
}
