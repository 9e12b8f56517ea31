//! The server's clock: one for all callers, and what is kept until when.

mod support;

use support::{Fixture, KEEP, SECOND, ask, connect, hourly, machine_time, open, plan, rate, slots};
use tidegate_conformance::TableExt as _;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::Clock;
use tidegate_store::Ending;

tidegate_conformance::clock_suite!(RedisServer::start, open, Clock);
tidegate_conformance::clock_suite!(
    RedisServer::start, open, Clock;
    leases_of_a_batch_are_granted_at_one_instant
);

/// A row until it equals "never seen", a lease for as long as it is remembered;
/// no key without an end.
#[test]
fn every_key_has_an_end() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, rate(1, 100)), (1, hourly(9)), (1, slots(4))];
    let fixture = Fixture::at(&store, "t", plan(0, 2, &rules), machine_time());
    fixture.lease(b"a/b", &[50, 1, 1], 30 * SECOND);
    let mut connection = connect(&server);
    let mut ttl = |key: &str| -> i64 { ask(&mut connection, &["PTTL", key]) };
    let about = |millis: i64, seconds: i64| (millis - seconds * 1_000).abs() < 20_000;
    let tag = "{tidegate:t:a}";
    assert!(
        about(ttl(&format!("{tag}:r")), 50),
        "the bucket is full again"
    );
    assert!(about(ttl(&format!("{tag}:r/b")), 3_600), "the hour is over");
    let keep = 30 + KEEP.as_micros() as i64 / 1_000_000;
    assert!(
        about(ttl(&format!("{tag}:b")), keep),
        "the lease is forgotten"
    );
    assert!(about(ttl(&format!("{tag}:d")), keep));
    fixture.end(b"a/b", 1, Ending::Cancel).expect("held");
    assert_eq!(ttl(&format!("{tag}:b")), -2, "no lease, no ledger");
    assert_eq!(ttl(&format!("{tag}:r")), -2, "nothing used, no row");
    assert_eq!(
        fixture.table.count(fixture.now()).expect("a count").keys,
        1,
        "the hour that was begun"
    );
}
