//! The clock that DynamoDB's answers correct decides, whatever the caller's says; and whether
//! what is spent was deleted yet decides nothing.

mod support;

use support::{items, sweep};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::fixture::{Fixture, SECOND, hourly, machine_time, plan, rate, slots};
use tidegate_dynamodb::{Clock, DynamodbStore};
use tidegate_store::Ending;
use tidegate_store::core::Span;

fn open(server: &DynamodbServer, clock: Clock) -> DynamodbStore {
    support::opened(support::TABLE, &server.endpoint(), clock)
}

tidegate_conformance::clock_suite!(DynamodbServer::start, open, Clock);

/// Each item of a store that decides by a clock of its own says when it may be deleted, but
/// for what is defined, the limits and the version of the layout, which are for good.
#[test]
fn every_item_of_a_root_has_a_time_to_live() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, hourly(9)), (1, slots(9)), (2, rate(1, 9))];
    let fixture = Fixture::at(&store, "t", plan(0, 3, &rules), machine_time());
    for key in [b"a/b/c".as_slice(), b"a/b/d", b"e/f/g"] {
        assert!(fixture.admits(key, &[1, 1, 1]));
        let lease = fixture.lease(key, &[1, 1, 1], 60 * SECOND).lease;
        assert!(lease.is_some());
    }
    fixture.end(b"a/b/c", 1, Ending::Release).expect("held");
    let items = items(&server);
    let of_roots: Vec<_> = items
        .iter()
        .filter(|item| support::bytes(item, "pk").first() == Some(&b'r'))
        .collect();
    // Seven rows and two leases.
    assert!(of_roots.len() >= 9, "{}", of_roots.len());
    for item in of_roots {
        assert!(item.contains_key("ttl"), "{item:?}");
    }
}

/// What was written hours ago is spent. Two tables of the same past, of which one is swept as
/// DynamoDB does: they answer alike.
#[test]
fn a_table_whose_spent_items_were_swept_decides_like_one_whose_were_not() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let rules = [(0, rate(1, 5)), (1, slots(2))];
    let answers = ["kept", "swept"].map(|name| {
        let open = |clock| support::opened(name, &server.endpoint(), clock);
        let store = open(Clock::Server);
        let fixture = Fixture::at(&store, "t", plan(0, 2, &rules), machine_time());
        // All that there is, for a second: in debt to nobody afterwards.
        assert!(fixture.admits(b"a/b", &[5, 0]));
        assert!(fixture.lease(b"a/c", &[0, 2], SECOND).lease.is_some());
        drop((fixture, store));
        support::age(&server, name);
        if name == "swept" {
            assert!(sweep(&server, name) > 0, "there is something to sweep");
        }
        let store = open(Clock::Server);
        let fixture = Fixture::at(&store, "t", plan(0, 2, &rules), machine_time());
        let unknown = fixture.end(b"a/c", 1, Ending::Release);
        let left = [fixture.left(b"a/b"), fixture.left(b"a/c")];
        (unknown, left, fixture.admits(b"a/b", &[5, 2]))
    });
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].2, "all is there again: {:?}", answers[0]);
}

/// What is not spent stays, and is owed: a sweep at this moment forgives nothing.
#[test]
fn a_sweep_forgives_no_debt_and_ends_no_lease() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, hourly(5)), (0, slots(2))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    let lease = fixture.lease(b"k", &[5, 2], 600 * SECOND).lease;
    let lease = lease.expect("it fits");
    sweep(&server, support::TABLE);
    let other = open(&server, Clock::Server);
    let other = Fixture::at(&other, "t", plan(0, 1, &rules), machine_time());
    assert_eq!(other.left(b"k"), [0, 0]);
    other.end(b"k", lease.id, Ending::Release).expect("held");
    assert_eq!(other.left(b"k"), [0, 2]);
    let waits = Span::from_secs(3_600);
    assert!(lease.expires_at <= fixture.now() + waits);
}
