//! What the server itself has left of a namespace that was cleared.

mod support;

use std::sync::Arc;

use support::{Fixture, ask, connect, hourly, machine_time, open, plan};
use tidegate_conformance::namespace::{clear, fill};
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::wait_for;
use tidegate_redis::Clock;
use tidegate_store::{NamespacedStore, Store, StoreError};

#[test]
fn of_a_namespace_that_was_cleared_the_server_has_no_key() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let mut connection = connect(&server);
    let mut keys = || ask::<u64>(&mut connection, &["DBSIZE"]);
    let store: Arc<dyn Store> = Arc::new(open(&server, Clock::Server));
    let space = NamespacedStore::new(Arc::clone(&store), "a*[b]");
    let other = NamespacedStore::new(store, "a*[b]c");
    fill(&other);
    let of_other = keys();
    fill(&space);
    assert!(keys() >= 2 * of_other);
    clear(&space).expect("an answer");
    assert_eq!(keys(), of_other);
    clear(&other).expect("an answer");
    assert_eq!(keys(), 0);
}

/// What a walk has passed may come back, as by a failover or a slot that moves: the clear was at
/// an end with its first walk.
#[test]
fn a_clear_goes_on_until_a_walk_finds_nothing() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let mut connection = connect(&server);
    let space = NamespacedStore::new(Arc::new(open(&server, Clock::Server)), "a");
    let plan = plan(0, 1, &[(0, hourly(10))]);
    let fixture = Fixture::at(&space, "chat", plan, machine_time());
    assert!(fixture.admits(b"k", &[1]));
    let names = ask::<Vec<String>>(&mut connection, &["KEYS", "*chat*"]);
    let name = names.first().expect("there is a key").clone();
    let fill = "for n = 1, 20000 do redis.call('SET', KEYS[1] .. n, 'x') end";
    let mut fill = || ask::<()>(&mut connection, &["EVAL", fill, "1", &name]);
    fill();
    let mut next = wait_for(space.clear("", None)).expect("an answer").next;
    assert!(next.is_some(), "one step looks at fewer");
    fill();
    while let Some(place) = next {
        next = wait_for(space.clear("", Some(&place)))
            .expect("an answer")
            .next;
    }
    assert_eq!(ask::<u64>(&mut connection, &["DBSIZE"]), 0);
    for place in [&b""[..], b"?", b"+x", b"1 0"] {
        let refused = wait_for(space.clear("", Some(place)));
        assert_eq!(refused.err(), Some(StoreError::UnknownPage), "{place:?}");
    }
}
