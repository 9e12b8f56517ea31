//! Limits of a key's own, in one process and in two.

mod support;

use std::sync::Arc;

use support::{Fixture, ask, connect, hourly, machine_time, open, plan};
use tidegate_conformance::TableExt as _;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::{Clock, RedisStore};
use tidegate_store::core::Rule;
use tidegate_store::{OwnedKey, Plan, Select};

/// Eight an hour, and for these keys as many as is said.
fn given(version: u64, own: &[(&[u8], u64)]) -> Arc<Plan> {
    let common = plan(version, 1, &[(0, hourly(8))]);
    let variant = |capacity: u64| {
        let rule: Rule = hourly(capacity);
        Arc::new(common.variant(|_| Some(rule)))
    };
    let own = own.iter();
    let own = own.map(|&(key, capacity)| (OwnedKey::new(key), variant(capacity)));
    Arc::new(Plan::clone(&common).with_overrides(own.collect()))
}

fn fixture(store: &RedisStore, own: &[(&[u8], u64)]) -> Fixture {
    Fixture::at(store, "t", given(0, own), machine_time())
}

/// How many functions were called so far.
fn calls(server: &RedisServer) -> u64 {
    let stats: String = ask(&mut connect(server), &["INFO", "commandstats"]);
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_fcall:"));
    let calls = line.and_then(|line| line.split("calls=").nth(1)?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

#[test]
fn a_key_with_limits_of_its_own_costs_one_trip_as_every_other() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = fixture(&store, &[(b"own", 20)]);
    assert!(fixture.admits(b"own", &[5]));
    let before = calls(&server);
    assert!(fixture.admits(b"own", &[5]));
    assert_eq!(fixture.left(b"own"), [10]);
    assert!(!fixture.admits(b"own", &[11]));
    assert_eq!(calls(&server) - before, 3);
}

#[test]
fn processes_that_know_different_limits_of_a_key_decide_by_their_own_on_one_use() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (store, other_store) = (open(&server, Clock::Server), open(&server, Clock::Server));
    let (fixture, other) = (fixture(&store, &[(b"own", 20)]), fixture(&other_store, &[]));
    assert!(fixture.admits(b"own", &[4]));
    for (used, left) in [(1, 15), (1, 13)] {
        assert!(other.admits(b"own", &[used]));
        assert!(fixture.admits(b"own", &[0]));
        assert_eq!(fixture.left(b"own"), [left]);
        assert!(fixture.admits(b"own", &[1]));
    }
    assert_eq!(other.left(b"own"), [0]);
    assert_eq!(fixture.left(b"own"), [12]);
}

#[test]
fn what_is_in_use_is_listed_by_the_servers_clock_too() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = fixture(&store, &[]);
    // By an hour, the caller's clock is wrong.
    fixture.set_now(fixture.now() + tidegate_store::core::Span::from_secs(3_600));
    let lease = fixture.lease(b"a%b", &[2], 60 * support::SECOND).lease;
    let lease = lease.expect("it fits");
    let listing = fixture.listing(Select::Prefix(b"a"), 10, None);
    let keys = fixture.table.list_keys(&listing).expect("a page").items;
    assert_eq!(keys, [OwnedKey::new(b"a%b")]);
    let leases = fixture.table.list_leases(&listing).expect("a page").items;
    let [held] = &leases[..] else {
        panic!("one is held, not {leases:?}");
    };
    assert_eq!((held.id, held.taken[..].to_vec()), (lease.id, vec![(0, 2)]));
    let ahead = held
        .expires_at
        .since(fixture.now())
        .as_duration()
        .as_secs_f64();
    assert!((55.0..=60.1).contains(&ahead), "it expires in {ahead} s");
    assert_eq!(fixture.table.count(fixture.now()).expect("a count").keys, 1);
}
