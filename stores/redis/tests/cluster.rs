//! A cluster one of whose masters is killed, or hangs.

mod support;

use std::time::Duration;

use support::{Desk, SECOND, hourly, machine_time, plan, slots};
use tidegate_conformance::Paused;
use tidegate_conformance::redis_server::RedisCluster;
use tidegate_contract::{Ending, StoreError, Verb};
use tidegate_redis::{Options, RedisStore};

/// As many as reach every master.
const KEYS: usize = 24;
const BUDGET: u64 = 5;

/// Asks until there is an answer. Before, nothing is known, and that is told within the
/// deadline.
fn asked<T>(mut ask: impl FnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..100_000 {
        match ask() {
            Ok(answer) => return answer,
            Err(StoreError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no replica took the master's place");
}

#[test]
fn after_a_cluster_failover_all_keys_are_decided_again_and_what_is_lost_is_bounded() {
    let Some(mut cluster) = RedisCluster::start_with_replicas() else {
        return;
    };
    let options = Options {
        deadline: Duration::from_secs(30),
        ..Options::default()
    };
    let store = RedisStore::open(&cluster.url(), options).expect("a cluster");
    let plan = plan(0, 1, &[(0, hourly(BUDGET)), (0, slots(2))]);
    let mut desk = Desk::at(&store, "t", plan, machine_time());
    let keys: Vec<_> = (0..KEYS).map(|key| format!("key {key}")).collect();
    let leases = keys.iter().map(|key| {
        let lease = desk.lease(key.as_bytes(), &[BUDGET, 1], 600 * SECOND);
        lease.lease.expect("it fits")
    });
    let leases: Vec<_> = leases.collect();
    cluster.kill_a_master();
    for (key, lease) in keys.iter().zip(&leases) {
        let key = key.as_bytes();
        let verdict = asked(|| desk.take(key, &[1, 0]));
        // Replication is asynchronous: what the replica had not seen is there again,
        // once. What another master keeps is not.
        let mut more = u64::from(verdict.admitted());
        while asked(|| desk.take(key, &[1, 0])).admitted() {
            more += 1;
        }
        assert!(more <= BUDGET, "{more} more of {BUDGET}");
        let end = Verb::End {
            id: lease.id,
            ending: Ending::Release,
            remember: true,
        };
        match asked(|| match desk.ask(key, end) {
            Err(StoreError::UnknownLease) => Ok(None),
            ended => ended.map(Some),
        }) {
            Some(_) => assert_eq!(more, 0, "a lease without what it took"),
            // A client of a cluster may send again what was cut, and take twice.
            None => assert!(more > 0, "what was taken without its lease"),
        }
        let after = desk.lease(key, &[0, 1], 600 * SECOND).lease;
        let after = after.expect("a slot is free");
        assert!(after.fence > lease.fence, "fences go on growing");
    }
}

/// It closes no connection, and answers nothing: its replica takes its place, and who
/// has waited in vain asks there.
#[test]
fn a_master_that_hangs_is_given_up_for_its_replica() {
    let Some(cluster) = RedisCluster::start_with_replicas() else {
        return;
    };
    let options = Options {
        deadline: Duration::from_secs(2),
        ..Options::default()
    };
    let store = RedisStore::open(&cluster.url(), options).expect("a cluster");
    let plan = plan(0, 1, &[(0, hourly(BUDGET))]);
    let desk = Desk::at(&store, "t", plan, machine_time());
    let keys: Vec<_> = (0..KEYS).map(|key| format!("key {key}")).collect();
    for key in &keys {
        assert!(asked(|| desk.take(key.as_bytes(), &[1])).admitted());
    }
    let _hangs = Paused::new(cluster.master());
    for key in &keys {
        let is_admitted = || desk.take(key.as_bytes(), &[1]).is_ok_and(|v| v.admitted());
        assert!((0..30).any(|_| is_admitted()), "nobody answers for {key}");
    }
}
