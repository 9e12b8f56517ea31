//! The clock that DynamoDB's answers correct decides, whatever the caller's says; and whether
//! what is spent was deleted yet decides nothing.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::counting::{Counting, Fault};
use support::{items, sweep};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::fixture::{Fixture, SECOND, hourly, machine_time, plan, rate, slots};
use tidegate_dynamodb::{Clock, DynamodbStore};
use tidegate_store::core::{Span, Timestamp};
use tidegate_store::{Change, Defined, Definition, Ending, Event, Store, block_on};

fn open(server: &DynamodbServer, clock: Clock) -> DynamodbStore {
    support::opened(support::TABLE, &server.endpoint(), clock)
}

tidegate_conformance::clock_suite!(DynamodbServer::start, open, Clock);

/// Nobody can tell then how far its clock is off.
#[test]
fn a_store_whose_answers_have_no_date_is_not_opened_and_says_why() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    let open = |clock| DynamodbStore::open("dated", support::options(&endpoint, clock));
    open(Clock::Server).expect("an emulator whose answers have one");
    const EVERY: &[&str] = &[
        "DescribeTable",
        "DescribeTimeToLive",
        "UpdateTimeToLive",
        "GetItem",
        "PutItem",
    ];
    proxy.next(usize::MAX, EVERY, Fault::Undated);
    let told = open(Clock::Server)
        .expect_err("there is no `Date`")
        .to_string();
    assert!(told.contains("no `Date`"), "{told}");
    open(Clock::Caller).expect("who decides by its own needs none");
}

/// Each item of a store that decides by a clock of its own says when it may be deleted, but
/// for what is defined, the limits and the version of the layout, which are for good.
#[test]
fn every_item_of_a_root_has_a_time_to_live() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, hourly(9)), (1, slots(9)), (2, rate(1, 9))];
    let counted = Arc::unwrap_or_clone(plan(0, 3, &rules));
    let counted = Arc::new(counted.counting_usage(Some(Span::from_secs(86_400))));
    let fixture = Fixture::at(&store, "t", counted, machine_time());
    for key in [b"a/b/c".as_slice(), b"a/b/d", b"e/f/g"] {
        assert!(fixture.admits(key, &[1, 1, 1]));
        let lease = fixture.lease_by(key, &[1, 1, 1], 60 * SECOND, Some(b"once"));
        assert!(lease.unwrap().lease.is_some());
    }
    fixture.end(b"a/b/c", 1, Ending::Release).expect("held");
    let items = items(&server);
    let of_roots: Vec<_> = items
        .iter()
        .filter(|item| support::bytes(item, "pk").first() == Some(&b'r'))
        .collect();
    // Seven rows, each with what was used, two leases, and what a key that was said once is known by.
    assert!(of_roots.len() >= 17, "{}", of_roots.len());
    for item in of_roots {
        assert!(item.contains_key("ttl"), "{item:?}");
    }
}

/// Tells of a change by an event of this body, which lasts so long, of which so many are kept.
fn tell(store: &DynamodbStore, (body, lasts): (u8, Duration), most: u32) {
    let event = Event {
        subject: b"s".to_vec(),
        body: vec![body],
        at: machine_time(),
        lasts,
        most,
        version: 0,
    };
    let change = Change::from(Definition::new("k", [body])).telling(event);
    block_on(store.change("owner", change)).expect("it is made");
}

/// The bodies of those that are kept.
fn events(store: &DynamodbStore) -> Vec<u8> {
    let events = store.events("owner", None, None, 100, Timestamp::MIN);
    let events = block_on(events).expect("an answer").items;
    events.into_iter().map(|event| event.body[0]).collect()
}

fn has_body(item: &support::Item, bytes: &[u8]) -> bool {
    let body = item.get("b").and_then(|body| body.as_b().ok());
    body.is_some_and(|body| body.as_ref() == bytes)
}

/// An event ends some day, and DynamoDB may delete it then; how many are kept is told by what is
/// left, swept or not.
#[test]
fn events_are_deleted_some_day_and_counted_alike_whether_they_were_or_not() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let kept = ["kept", "swept"].map(|name| {
        let store = support::opened(name, &server.endpoint(), Clock::Server);
        let (day, moment) = (Duration::from_secs(86_400), Duration::from_micros(1));
        for (nth, lasts) in [(0, moment), (1, day), (3, day), (2, moment)] {
            tell(&store, (nth, lasts), 4);
        }
        let items = support::items_of(&server, name);
        let told = items
            .iter()
            .filter(|item| support::bytes(item, "sk")[0] == b'e');
        assert_eq!(told.filter(|item| item.contains_key("ttl")).count(), 3);
        support::age_where(&server, name, |item| has_body(item, &[2]));
        if name == "swept" {
            assert_eq!(sweep(&server, name), 1);
        }
        (4..7)
            .map(|nth| {
                tell(&store, (nth, day), 4);
                events(&store)
            })
            .collect::<Vec<Vec<u8>>>()
    });
    assert_eq!(kept[0], kept[1]);
    assert_eq!(kept[0], [vec![1, 3, 4], vec![1, 3, 4, 5], vec![3, 4, 5, 6]]);
}

/// An event that was over before those that came earlier: it is no more when it was deleted than
/// when it was not, and takes nobody's place.
#[test]
fn an_event_that_was_deleted_takes_no_place_among_those_that_are_kept() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let (day, moment) = (Duration::from_secs(86_400), Duration::from_micros(1));
    let kept = ["kept", "swept"].map(|name| {
        let store = support::opened(name, &server.endpoint(), Clock::Server);
        for told in [(0, day), (1, day), (2, moment)] {
            tell(&store, told, 3);
        }
        if name == "swept" {
            support::age_where(&server, name, |item| has_body(item, &[2]));
            assert_eq!(sweep(&server, name), 1);
        }
        tell(&store, (3, day), 3);
        events(&store)
    });
    assert_eq!(kept, [[0, 1, 3], [0, 1, 3]]);
}

/// Those that are over go first, wherever they are: behind the oldest ones they were counted as
/// kept, and an event that was not over went in their place.
#[test]
fn no_event_goes_for_ones_that_are_over_behind_however_many_others() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let (day, moment) = (Duration::from_secs(86_400), Duration::from_micros(1));
    let kept = ["kept", "swept"].map(|name| {
        let store = support::opened(name, &server.endpoint(), Clock::Server);
        (0..33).for_each(|nth| tell(&store, (nth, day), 40));
        (33..40).for_each(|nth| tell(&store, (nth, moment), 40));
        if name == "swept" {
            let is_over = |item: &support::Item| (33..40).any(|nth| has_body(item, &[nth]));
            support::age_where(&server, name, is_over);
            assert!(sweep(&server, name) > 0);
        }
        tell(&store, (40, day), 40);
        events(&store)
    });
    let all: Vec<u8> = (0..33).chain([40]).collect();
    assert_eq!(kept, [all.clone(), all]);
}

/// Which versions there were is noted for half a day. Whether the note was deleted yet decides
/// nothing: who knows an older one is told everything, and who knows the last goes on.
#[test]
fn who_knows_a_version_whose_note_was_deleted_is_told_everything() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let store = support::opened(support::TABLE, &server.endpoint(), Clock::Server);
    let version = |key: &str| {
        let change = Definition::new(key, "1").into();
        match block_on(store.change("owner", change)).expect("it is made") {
            Defined::Done { version, .. } => version,
            conflict => panic!("{conflict:?}"),
        }
    };
    let (first, last) = (version("a"), version("b"));
    let since = |version| {
        let told = block_on(store.definitions("owner", version)).expect("an answer");
        (told.whole, told.changed.len(), told.version)
    };
    assert_eq!(since(first), (false, 1, last));
    let notes = || {
        let items = items(&server).into_iter();
        items.filter(|item| support::bytes(item, "sk")[0] == b'c')
    };
    assert_eq!(notes().count(), 2);
    assert!(
        notes().all(|note| note.contains_key("ttl")),
        "for half a day"
    );
    support::age(&server, support::TABLE);
    assert_eq!(sweep(&server, support::TABLE), 2);
    assert_eq!(since(first), (true, 2, last));
    assert_eq!(since(last), (false, 0, last));
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

/// Two who are five seconds apart ask one key for ten minutes, as often as each may: what a burst
/// and the rate have, and five seconds more at most.
#[test]
fn two_callers_five_seconds_apart_admit_what_the_rate_has_and_five_seconds_more() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let (minute, apart, minutes) = (60, Span::from_secs(5), 10);
    // One a second, and a minute's at once.
    let limits = || plan(0, 1, &[(0, rate(1, minute))]);
    let begun = machine_time();
    let stores = [(), ()].map(|()| open(&server, Clock::Caller));
    let callers = stores
        .each_ref()
        .map(|store| Fixture::at(store, "t", limits(), begun));
    let mut admitted = 0;
    for second in 0..=minutes * minute {
        // In turn first, and each until it is refused.
        for nth in [second % 2, 1 - second % 2] {
            let caller = &callers[nth as usize];
            let now = begun + Span::from_secs(second);
            caller.set_now(if nth == 0 { now } else { now + apart });
            while caller.admits(b"k", &[1]) {
                admitted += 1;
            }
        }
    }
    let most = minute + minutes * minute + 5;
    assert!(admitted <= most, "{admitted}");
    assert!(admitted >= most - 5, "and all of it: {admitted}");
}
