//! Requests and units, counted by a proxy between the store and the emulator: what each request
//! was, and what DynamoDB bills for it by its own answer.

mod support;

use support::counting::{Counting, Request};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::fixture::{Fixture, SECOND, hourly, machine_time, plan, rate, slots};
use tidegate_dynamodb::{Clock, DynamodbStore};
use tidegate_store::Ending;

fn open(proxy: &Counting) -> DynamodbStore {
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    support::opened(support::TABLE, &endpoint, Clock::Server)
}

fn names(requests: &[Request]) -> Vec<&str> {
    requests
        .iter()
        .map(|request| request.name.as_str())
        .collect()
}

fn units_written(requests: &[Request]) -> f64 {
    let writes = requests.iter().filter(|request| request.is_write());
    writes.map(|request| request.units).sum()
}

#[test]
fn a_lone_bucket_is_one_request_and_one_write_unit() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy);
    let limits = || plan(0, 1, &[(0, hourly(9_999))]);
    let fixture = Fixture::at(&store, "t", limits(), machine_time());
    // The first is read, and written.
    assert!(fixture.admits(b"k", &[1]));
    for _ in 0..3 {
        proxy.forget();
        assert!(fixture.admits(b"k", &[1]));
        let asked = proxy.asked();
        assert_eq!(names(&asked), ["PutItem"]);
        assert_eq!(units_written(&asked), 1.0);
    }
    // Another process, which reads first; then this one, whose write tells it of that.
    let other = open(&proxy);
    let other = Fixture::at(&other, "t", limits(), machine_time());
    assert!(other.admits(b"k", &[1]));
    proxy.forget();
    assert!(fixture.admits(b"k", &[1]));
    assert_eq!(names(&proxy.asked()), ["PutItem", "PutItem"]);
    assert_eq!(fixture.left(b"k"), [9_999 - 6]);
}

#[test]
fn a_refusal_is_one_request_and_writes_nothing() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy);
    let rules = [(0, hourly(5)), (1, slots(2)), (1, rate(1, 9))];
    let one = Fixture::at(&store, "one", plan(0, 1, &rules[..1]), machine_time());
    assert!(one.admits(b"k", &[5]));
    let three = Fixture::at(&store, "three", plan(0, 2, &rules), machine_time());
    assert!(
        three
            .lease(b"a/b", &[5, 2, 1], 600 * SECOND)
            .lease
            .is_some()
    );
    for _ in 0..3 {
        proxy.forget();
        assert!(!one.admits(b"k", &[1]));
        assert_eq!(names(&proxy.asked()), ["GetItem"]);
        proxy.forget();
        assert!(!three.admits(b"a/b", &[1, 0, 0]));
        assert!(three.lease(b"a/b", &[0, 1, 0], SECOND).lease.is_none());
        let asked = proxy.asked();
        assert_eq!(names(&asked), ["TransactGetItems", "TransactGetItems"]);
        assert_eq!(units_written(&asked), 0.0);
    }
}

#[test]
fn leases_and_ancestors_are_two_requests_at_most() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy);
    let rules = [(0, hourly(99)), (1, slots(99)), (2, rate(1, 99))];
    let limits = || plan(0, 3, &rules);
    let fixture = Fixture::at(&store, "t", limits(), machine_time());
    let counted = |act: &mut dyn FnMut()| {
        proxy.forget();
        act();
        proxy.asked()
    };
    let mut lease = None;
    // Of keys that were never seen.
    let asked = counted(&mut || assert!(fixture.admits(b"x/y/z", &[1, 1, 1])));
    assert!(asked.len() <= 3, "the limits are written, too: {asked:?}");
    let asked = counted(&mut || assert!(fixture.admits(b"x/w/z", &[1, 1, 1])));
    assert!(asked.len() <= 2, "{asked:?}");
    for _ in 0..3 {
        let asked = counted(&mut || {
            lease = fixture.lease(b"x/y/z", &[1, 1, 1], 600 * SECOND).lease;
        });
        assert_eq!(names(&asked), ["TransactWriteItems"]);
        let id = lease.expect("it fits").id;
        let asked = counted(&mut || drop(fixture.end(b"x/y/z", id, Ending::Release)));
        assert_eq!(names(&asked), ["TransactWriteItems"]);
    }
    // A process that knows nothing yet ends what another was granted.
    lease = fixture.lease(b"x/y/z", &[1, 1, 1], 600 * SECOND).lease;
    let other = open(&proxy);
    let other = Fixture::at(&other, "t", limits(), machine_time());
    assert!(other.admits(b"other/y/z", &[1, 1, 1]));
    let id = lease.expect("it fits").id;
    let asked = counted(&mut || drop(other.end(b"x/y/z", id, Ending::Release).expect("held")));
    assert_eq!(names(&asked), ["TransactGetItems", "TransactWriteItems"]);
}

/// A thousand leases of a rate are a thousand items, and the root's row has a number for them.
#[test]
fn a_root_with_many_leases_has_no_larger_row() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy);
    let fixture = Fixture::at(
        &store,
        "t",
        plan(0, 1, &[(0, hourly(99_999))]),
        machine_time(),
    );
    let size = || {
        let items = support::items(&server);
        let rows = items
            .iter()
            .filter(|item| support::bytes(item, "sk") == b"k");
        let sizes = rows.map(|row| support::bytes(row, "b").len());
        sizes.max().expect("a row")
    };
    assert!(fixture.lease(b"k", &[1], 600 * SECOND).lease.is_some());
    let one = size();
    for _ in 1..200 {
        assert!(fixture.lease(b"k", &[1], 600 * SECOND).lease.is_some());
    }
    assert_eq!(size(), one);
}
