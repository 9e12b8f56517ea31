//! Requests and units, counted by a proxy between the store and the emulator: what each request
//! was, and what DynamoDB bills for it by its own answer.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::counting::{Counting, Fault, Request};
use tidegate_conformance::TableExt;
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::fixture::{Fixture, SECOND, hourly, machine_time, plan, rate, slots};
use tidegate_dynamodb::{Clock, DynamodbStore};
use tidegate_store::core::Span;
use tidegate_store::{Change, Definition, Ending, Event, Hours, Reply, Select, Store, block_on};

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

/// Of a root that this process knows there is nothing to read.
#[test]
fn a_batch_of_one_root_is_one_read_and_one_write() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy);
    let fixture = Fixture::at(
        &store,
        "t",
        plan(0, 1, &[(0, hourly(9_999))]),
        machine_time(),
    );
    assert_eq!(fixture.takes_together(200), 200);
    proxy.forget();
    assert_eq!(fixture.takes_together(1_000), 1_000);
    let asked = proxy.asked();
    assert_eq!(names(&asked), ["PutItem"]);
    assert_eq!(units_written(&asked), 1.0);
    let other = open(&proxy);
    let limits = plan(0, 2, &[(0, hourly(9_999)), (1, hourly(9))]);
    let writer = Fixture::at(&store, "two", Arc::clone(&limits), machine_time());
    assert_eq!(writer.takes_together(40), 40);
    let fixture = Fixture::at(&other, "two", limits, machine_time());
    fixture.left(b"b");
    proxy.forget();
    assert_eq!(fixture.takes_together(40), 40);
    let asked = proxy.asked();
    assert_eq!(names(&asked), ["TransactGetItems", "TransactWriteItems"]);
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

/// Each wrote on the version before it: as many requests and units, one after the other.
#[test]
fn takes_of_one_key_that_come_while_one_is_under_way_are_one_request() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy);
    let limits = plan(0, 1, &[(0, hourly(40))]);
    let fixture = Fixture::at(&store, "t", limits, machine_time());
    assert!(fixture.admits(b"k", &[1]));
    proxy.forget();
    proxy.next(1, &["PutItem"], Fault::Held);
    let begun = fixture.takes_at_once(b"k", 50);
    proxy.mend();
    let answers = begun
        .into_iter()
        .map(|begun| block_on(begun).expect("an answer"));
    let is_admitted = |reply: &Reply| reply.verdict().expect("a verdict").admitted();
    assert_eq!(answers.filter(is_admitted).count(), 39);
    // Or all of them together, behind the one before, whose group had not ended.
    let asked = proxy.asked();
    assert!((1..=2).contains(&asked.len()), "{asked:?}");
    assert_eq!(units_written(&asked), asked.len() as f64);
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

/// What is done most, by the process that wrote the root last: what it asks, of how many items,
/// and how many units that is. An item alone is one unit, each of a transaction two, and that of
/// a lease in the index one more.
#[test]
fn a_take_a_lease_and_its_settlement_cost_what_the_page_says() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy);
    let (alone, several) = ("PutItem", "TransactWriteItems");
    for (levels, key, take) in [
        (1, &b"a"[..], (alone, 1, 1.0)),
        (2, b"a/b", (several, 2, 4.0)),
        (3, b"a/b/c", (several, 3, 6.0)),
    ] {
        let rules: Vec<_> = (0..levels).map(|level| (level, hourly(99))).collect();
        let name = format!("of {levels}");
        let fixture = Fixture::at(&store, &name, plan(0, levels, &rules), machine_time());
        let ones = vec![1; levels];
        assert!(fixture.admits(key, &ones));
        let cost = |act: &mut dyn FnMut()| {
            proxy.forget();
            act();
            let asked = proxy.asked();
            assert_eq!(asked.len(), 1, "{asked:?}");
            (asked[0].name.clone(), asked[0].items, asked[0].units)
        };
        let (name, items, units) = take;
        let taken = cost(&mut || assert!(fixture.admits(key, &ones)));
        assert_eq!(taken, (name.to_owned(), items, units), "{levels}");
        // The lease is one item more, and one in the index.
        let more = (
            several.to_owned(),
            levels + 1,
            2.0 * (levels + 1) as f64 + 1.0,
        );
        let mut lease = None;
        let twos = vec![2; levels];
        let granted = cost(&mut || lease = fixture.lease(key, &twos, 600 * SECOND).lease);
        assert_eq!(granted, more, "{levels}");
        let id = lease.expect("it fits").id;
        let settled = cost(&mut || {
            let used = vec![Some(1); levels];
            fixture.end(key, id, Ending::Settle(&used)).expect("held");
        });
        assert_eq!(settled, more, "{levels}");
        assert_eq!(fixture.left(key), vec![99 - 3; levels]);
    }
}

/// What is counted of a key and its ancestors is an item more for each of them.
#[test]
fn what_is_counted_costs_what_the_page_says() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy);
    for (levels, key) in [(1, &b"a"[..]), (2, b"a/b"), (3, b"a/b/c")] {
        let rules = (0..levels).flat_map(|level| [(level, hourly(99)), (level, hourly(98))]);
        let plan = plan(0, levels, &rules.collect::<Vec<_>>());
        let plan = Arc::unwrap_or_clone(plan).counting_usage(Some(Span::from_secs(86_400)));
        let name = format!("of {levels}");
        let fixture = Fixture::at(&store, &name, Arc::new(plan), machine_time());
        let ones = vec![1; 2 * levels];
        assert!(fixture.admits(key, &ones));
        let cost = |act: &mut dyn FnMut()| {
            proxy.forget();
            act();
            let asked = proxy.asked();
            assert_eq!(names(&asked), ["TransactWriteItems"]);
            (asked[0].items, asked[0].units)
        };
        let taken = cost(&mut || assert!(fixture.admits(key, &ones)));
        assert_eq!(taken, (2 * levels, 4.0 * levels as f64), "{levels}");
        let more = (2 * levels + 1, 4.0 * levels as f64 + 3.0);
        let mut lease = None;
        let twos = vec![2; 2 * levels];
        let granted = cost(&mut || lease = fixture.lease(key, &twos, 600 * SECOND).lease);
        assert_eq!(granted, more, "{levels}");
        let id = lease.expect("it fits").id;
        let settled = cost(&mut || {
            let used = vec![Some(1); 2 * levels];
            fixture.end(key, id, Ending::Settle(&used)).expect("held");
        });
        assert_eq!(settled, more, "{levels}");
        // What is used as it was taken changes nothing of it.
        lease = fixture.lease(key, &twos, 600 * SECOND).lease;
        let id = lease.expect("it fits").id;
        let released = cost(&mut || drop(fixture.end(key, id, Ending::Release).expect("held")));
        assert!(released.0 <= levels + 1, "{released:?}");
    }
}

/// A root's row says when a lease of it was due that has ended since: the first listing corrects that,
/// and no later one looks at the root again.
#[test]
fn a_listing_of_usage_looks_once_at_roots_whose_leases_have_ended() {
    const ROOTS: usize = 20;
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    let store = support::opened(support::TABLE, &endpoint, Clock::Caller);
    let plan = Arc::unwrap_or_clone(plan(0, 1, &[(0, hourly(99))]));
    let plan = plan.counting_usage(Some(Span::from_secs(86_400)));
    let fixture = Fixture::at(&store, "t", Arc::new(plan), machine_time());
    for root in 0..ROOTS {
        let key = format!("root {root}");
        let lease = fixture.lease(key.as_bytes(), &[1], 60 * SECOND).lease;
        let id = lease.expect("it fits").id;
        let ended = fixture.end(key.as_bytes(), id, Ending::Release);
        ended.expect("it is held");
    }
    fixture.set_now(fixture.now() + Span::from_secs(61));
    let list = || {
        proxy.forget();
        let listing = fixture.listing(Select::All, 1_000, None);
        let page = fixture.table.list_usage(&listing, Hours::ALL);
        (page.expect("a page").items.len(), proxy.asked())
    };
    let (listed, _) = list();
    assert_eq!(listed, ROOTS);
    let (listed, asked) = list();
    assert_eq!(listed, ROOTS);
    assert_eq!(names(&asked), ["Scan"]);
}

/// What is defined, with the event that tells of it.
#[test]
fn a_change_with_its_event_costs_what_the_page_says() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy);
    let cost = |value: u8| {
        let event = Event {
            subject: b"acme".to_vec(),
            body: vec![value],
            at: machine_time(),
            lasts: Duration::from_secs(3_600),
            most: 100,
            version: 0,
        };
        let change = Change::from(Definition::new("k", [value])).telling(event);
        proxy.forget();
        assert!(
            block_on(store.change("owner", change))
                .unwrap()
                .is_changed()
        );
        let asked = proxy.asked();
        let writes = asked.iter().filter(|one| one.name.contains("Write"));
        writes.map(|one| (one.items, one.units)).collect::<Vec<_>>()
    };
    cost(1);
    assert_eq!(cost(2), [(5, 13.0)]);
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
    for _ in 1..1_000 {
        assert!(fixture.lease(b"k", &[1], 600 * SECOND).lease.is_some());
    }
    assert_eq!(size(), one);
    let items = support::items(&server);
    let leases = items
        .iter()
        .filter(|item| support::bytes(item, "sk")[0] == b'l');
    assert_eq!(leases.count(), 1_000);
}
