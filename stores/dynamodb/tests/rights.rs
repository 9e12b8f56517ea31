//! What a user of the table has to be allowed, as a proxy between the store and the emulator sees
//! it: neither less than the templates say, nor more.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use support::counting::{Counting, Request};
use support::{TABLE, options};
use tidegate::{Limit, LimitSet, PageOf, Request as Asked, Select, Span, Store, Timestamp};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_dynamodb::{
    Administration, Clock, DynamodbStore, Language, Options, Rights, Template,
};
use tidegate_store::{Change, Definition, Event, block_on};

const HOUR: Duration = Duration::from_secs(3_600);

/// The actions that these requests need, as IAM calls them: a transaction those of its items.
fn actions(asked: &[Request]) -> BTreeSet<String> {
    let names = asked.iter().flat_map(|request| match &*request.name {
        "TransactGetItems" => vec!["GetItem"],
        "TransactWriteItems" => request.writes.clone(),
        name => vec![name],
    });
    names.map(|name| format!("dynamodb:{name}")).collect()
}

fn allowed(rights: Rights) -> BTreeSet<String> {
    let actions = rights.actions().iter();
    actions.map(|&action| action.to_owned()).collect()
}

fn at(proxy: &Counting, migrate: bool) -> Options {
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    Options {
        migrate,
        ..options(&endpoint, Clock::Server)
    }
}

/// Every sort of request that a process makes which decides by the table.
fn use_it(store: &Arc<DynamodbStore>) {
    let shared: Arc<dyn Store> = Arc::<DynamodbStore>::clone(store);
    let limits = |most| {
        [
            Limit::calls("calls", most, HOUR).at_level("org"),
            Limit::concurrency("running", 1),
        ]
    };
    let set = |most| {
        let builder = LimitSet::builder().store(Arc::clone(&shared)).name("t");
        let builder = builder.levels(["org", "user"]).limits(limits(most));
        builder.build().unwrap()
    };
    let first = set(9);
    let asked = Asked::from(1).idempotency(b"once");
    let taken = first.try_acquire("a/b", asked).wait().unwrap();
    let mut lease = taken.granted().unwrap();
    // For so long that it says that it is still there, which it does every second.
    let waits = first.acquire("a/b", Asked::from(1).within(Duration::from_secs(4)));
    assert!(waits.wait().unwrap().granted().is_none());
    assert_eq!(first.count().wait().unwrap().keys, 2);
    lease.release().wait().unwrap();
    // The limits change, over and over, and old revisions are forgotten.
    for most in 10..13 {
        let taken = set(most).try_acquire("a/b", 1).wait().unwrap();
        taken.granted().unwrap().release().wait().unwrap();
    }
    block_on(store.define("owner", Definition::new("k", "v"))).unwrap();
    block_on(store.definitions_page("owner", b"", None, 10)).unwrap();
    first.reset("a/b").wait().unwrap();
    // What is used is counted, a lease changed, several keys checked at once.
    let builder = LimitSet::builder().store(Arc::clone(&shared));
    let builder = builder.name("counted").keep_usage(48 * HOUR);
    let counted = builder
        .limit(Limit::calls("calls", 9, HOUR))
        .build()
        .unwrap();
    let lease = counted.try_acquire("a", 2).wait().unwrap();
    let mut lease = lease.granted().unwrap();
    lease.adjust(3).wait().unwrap();
    lease.settle(1).wait().unwrap();
    counted.check_many([("a", 1), ("b", 1)]).wait().unwrap();
    let now = Timestamp::from(SystemTime::UNIX_EPOCH);
    let later = now + Span::from(HOUR * 24 * 400_000);
    let page = PageOf {
        select: Select::All,
        after: None,
        most: 100,
    };
    let used = counted.list_usage(page, now, later).wait().unwrap();
    assert!(!used.items.is_empty());
    // A change with its event, and what is told of it.
    let event = Event {
        subject: b"k".to_vec(),
        body: b"told".to_vec(),
        at: later,
        lasts: HOUR,
        most: 10,
        version: 0,
    };
    let change = Change::from(Definition::new("k", "w")).telling(event);
    block_on(store.change("owner", change)).unwrap();
    let events = store.events("owner", None, None, 10, now);
    assert_eq!(block_on(events).unwrap().items.len(), 1);
    // All of it is removed.
    drop(counted);
    let mut after = None;
    loop {
        let cleared = block_on(store.clear("counted", after.as_deref())).unwrap();
        match cleared.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
}

#[test]
fn a_process_that_decides_needs_what_its_policy_allows() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let made = Administration::new(TABLE, options(&server.endpoint(), Clock::Server)).unwrap();
    made.create(false).unwrap();
    let proxy = Counting::to(server.port());
    let store = Arc::new(DynamodbStore::open(TABLE, at(&proxy, false)).unwrap());
    use_it(&store);
    let asked = proxy.asked();
    assert_eq!(actions(&asked), allowed(Rights::Decide));
    // What a decision asks is watched. (The rest are heartbeats and listings.)
    let text = Template::new(TABLE).unwrap();
    let text = text.text(Language::CloudFormation);
    let others = ["DeleteItem", "DescribeTable", "Scan", "UpdateItem"];
    for request in asked.iter().filter(|one| !others.contains(&&*one.name)) {
        let watched = format!("{{Name: Operation, Value: {}}}", request.name);
        assert!(text.contains(&watched), "{}", request.name);
    }
}

#[test]
fn a_process_that_makes_its_table_needs_what_its_policy_allows() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = Arc::new(DynamodbStore::open(TABLE, at(&proxy, true)).unwrap());
    use_it(&store);
    assert_eq!(actions(&proxy.asked()), allowed(Rights::Migrate));
}

#[test]
fn an_operator_needs_what_the_policy_allows() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let table = Administration::new(TABLE, at(&proxy, true)).unwrap();
    table.create(true).unwrap();
    table.status().unwrap();
    table.upgrade(Some(false)).unwrap();
    table.delete().unwrap();
    assert_eq!(actions(&proxy.asked()), allowed(Rights::Administer));
}
