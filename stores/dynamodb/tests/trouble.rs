//! A way that fails: what a write whose answer was lost has done is found out; a DynamoDB that
//! stands still is an error within the deadline; and what is too large is one before anything
//! is done.

mod support;

use std::time::Duration;

use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::fixture::{Fixture, SECOND, hourly, machine_time, plan, slots};
use tidegate_conformance::{Cut, Paused, Proxy};
use tidegate_dynamodb::{Clock, DynamodbError, DynamodbStore, Options};
use tidegate_store::{Change, Definition, Ending, Event, Store, StoreError, Verb, block_on};

/// Cut before it, within it and behind it, a request is made again: what it was to do is done,
/// and once.
#[test]
fn a_request_that_is_cut_off_is_done_once() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Proxy::to(server.port());
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    let store = support::opened(support::TABLE, &endpoint, Clock::Server);
    let rules = [(0, hourly(100)), (1, slots(100))];
    let one = Fixture::at(&store, "one", plan(0, 1, &rules[..1]), machine_time());
    let two = Fixture::at(&store, "two", plan(0, 2, &rules), machine_time());
    assert!(one.admits(b"k", &[1]) && two.admits(b"a/b", &[1, 0]));
    let mut taken = 1;
    for cut in Cut::ALL {
        for request in 1..=2 {
            proxy.cut_at(request, cut);
            assert!(one.admits(b"k", &[1]), "{cut:?}");
            // One request is all that it takes.
            assert_eq!(proxy.mend(), request == 1);
            proxy.cut_at(1, cut);
            let lease = two.lease(b"a/b", &[1, 1], 600 * SECOND).lease;
            assert!(lease.is_some(), "{cut:?}");
            assert!(proxy.mend());
            taken += 1;
        }
    }
    assert_eq!(one.left(b"k"), [100 - taken]);
    assert_eq!(two.left(b"a/b"), [100 - taken, 100 - (taken - 1)]);
}

fn quick(server: &DynamodbServer) -> DynamodbStore {
    let options = Options {
        deadline: Duration::from_secs(2),
        ..support::options(&server.endpoint(), Clock::Server)
    };
    DynamodbStore::open(support::TABLE, options).expect("an emulator")
}

#[test]
fn one_that_stands_still_is_an_error_within_the_deadline_and_then_goes_on() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let patient = support::opened(support::TABLE, &server.endpoint(), Clock::Server);
    let limits = || plan(0, 1, &[(0, hourly(9))]);
    let fixture = Fixture::at(&patient, "t", limits(), machine_time());
    assert!(fixture.admits(b"k", &[1]));
    let store = quick(&server);
    let hurried = Fixture::at(&store, "t", limits(), machine_time());
    let paused = Paused::new(server.pid());
    for _ in 0..2 {
        let told = hurried.take(b"k", &[1]);
        assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
    }
    drop(paused);
    assert!(fixture.admits(b"k", &[1]));
}

#[test]
fn what_is_wrong_is_told_at_open() {
    let options = |endpoint: &str| Options {
        deadline: Duration::from_secs(2),
        ..support::options(endpoint, Clock::Server)
    };
    // Port 1 of this machine: nobody listens, and nobody may without leave.
    let away = DynamodbStore::open(support::TABLE, options("http://127.0.0.1:1"));
    assert!(matches!(away, Err(DynamodbError::Server(_))));
    let named = DynamodbStore::open("a b", options("http://127.0.0.1:1"));
    assert_eq!(
        named.expect_err("no name"),
        DynamodbError::Table("a b".into())
    );
    let wrong = [
        options("127.0.0.1:1"),
        Options {
            deadline: Duration::ZERO,
            ..Options::default()
        },
        Options {
            connections: 0,
            ..Options::default()
        },
    ];
    for options in wrong {
        let told = DynamodbStore::open(support::TABLE, options);
        assert!(matches!(told, Err(DynamodbError::Option(_))));
    }
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let missing = Options {
        migrate: false,
        ..support::options(&server.endpoint(), Clock::Server)
    };
    let told = DynamodbStore::open(support::TABLE, missing).expect_err("no table");
    assert!(
        told.to_string().contains("is not there; create it"),
        "{told}"
    );
    assert!(
        !format!("{told:?}{:?}", support::options("x", Clock::Server)).contains("secret_access")
    );
}

/// More leases than one transaction changes: nothing is done, and it is said why. In two steps
/// it is.
#[test]
fn a_change_of_too_many_items_is_an_error_before_anything_is_done() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let store = support::opened(support::TABLE, &server.endpoint(), Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(500))]), machine_time());
    let leases: Vec<u128> = (0..100)
        .map(|_| {
            fixture
                .lease(b"k", &[1], 600 * SECOND)
                .lease
                .expect("it fits")
                .id
        })
        .collect();
    let told = fixture.execute(b"k", Verb::Reset);
    assert!(matches!(told, Err(StoreError::Full(_))), "{told:?}");
    assert_eq!(fixture.left(b"k"), [400]);
    fixture.end(b"k", leases[0], Ending::Cancel).expect("held");
    fixture.execute(b"k", Verb::Reset).expect("it fits now");
    assert_eq!(fixture.left(b"k"), [500]);
}

/// A lease whose record is larger than an item may be, and a definition and an event that are:
/// nothing is done, and it is said why.
#[test]
fn an_item_of_more_than_400_kilobytes_is_an_error_before_anything_is_done() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let store = support::opened(support::TABLE, &server.endpoint(), Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
    let before = support::items(&server);
    let large = vec![b'x'; 400 * 1_024];
    let leased = fixture.lease_by(b"k", &[1], SECOND, Some(&large));
    assert!(matches!(leased, Err(StoreError::Full(_))), "{leased:?}");
    let event = |body: &[u8]| Event {
        subject: b"s".to_vec(),
        body: body.to_vec(),
        at: machine_time(),
        lasts: Duration::from_secs(60),
        most: 9,
        version: 0,
    };
    for (value, body) in [(&large[..], &b"small"[..]), (b"small", &large)] {
        let change = Change::from(Definition::new("k", value)).telling(event(body));
        let made = block_on(store.change("owner", change));
        assert!(matches!(made, Err(StoreError::Full(_))), "{made:?}");
    }
    assert_eq!(fixture.left(b"k"), [8]);
    assert_eq!(support::items(&server).len(), before.len());
    assert!(fixture.admits(b"k", &[1]), "it goes on");
}

/// Nobody says whom to ask as: an emulator takes anybody.
#[test]
fn an_emulator_of_this_machine_is_asked_without_credentials() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let options = Options {
        credentials: None,
        ..support::options(&server.endpoint(), Clock::Server)
    };
    let store = DynamodbStore::open(support::TABLE, options).expect("an emulator");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
}
