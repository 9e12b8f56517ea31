//! A master that sentinels know, and the next after it.

mod support;

use support::{Fixture, SECOND, hourly, machine_time, plan, slots};
use tidegate_conformance::redis_server::RedisService;
use tidegate_redis::{Options, RedisStore};
use tidegate_store::{Ending, StoreError};

#[test]
fn after_a_failover_the_new_master_decides_and_fences_go_on_growing() {
    let Some(mut service) = RedisService::start() else {
        return;
    };
    let store = RedisStore::open(&service.url(), Options::default()).expect("a master");
    let plan = plan(0, 1, &[(0, hourly(1_000_000)), (0, slots(1_000))]);
    let fixture = Fixture::at(&store, "t", plan, machine_time());
    let before = fixture.lease(b"k", &[1, 1], 600 * SECOND).lease;
    let before = before.expect("it fits");
    service.kill_master();
    let mut lost = 0;
    // An error comes within the deadline, and says that nothing is known.
    while let Err(error) = fixture.take(b"k", &[1, 0]) {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        lost += 1;
        assert!(lost < 100_000, "there is a master again");
    }
    let after = fixture.lease(b"k", &[1, 1], 600 * SECOND).lease;
    let after = after.expect("it fits");
    assert!(after.fence > before.fence);
    // Replication is asynchronous: the lease is there, or was lost.
    match fixture.end(b"k", before.id, Ending::Release) {
        Ok(_) | Err(StoreError::UnknownLease) => {}
        Err(error) => panic!("{error}"),
    }
}
