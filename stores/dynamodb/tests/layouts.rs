//! A table that an older program wrote: refused until it is brought up to date, and decided on then.

mod support;

use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use support::{TABLE, bytes, opened, options};
use tidegate_conformance::TableExt;
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::fixture::{Fixture, SECOND, hourly, machine_time, plan};
use tidegate_dynamodb::{Administration, Clock, Done, DynamodbStore, Status};
use tidegate_store::core::Span;
use tidegate_store::{Ending, Plan, Select};

const KEY: &[u8] = b"a/b";

fn limits() -> Arc<Plan> {
    let limits = plan(0, 2, &[(0, hourly(100)), (1, hourly(50))]);
    Arc::new(Arc::unwrap_or_clone(limits).counting_usage(Some(Span::from_secs(86_400))))
}

/// Has the root of `key` be one of which only requests that may wait are known.
fn without_a_record(server: &DynamodbServer, key: &[u8]) {
    let is_its = |item: &support::Item| {
        bytes(item, "pk").ends_with(key) && bytes(item, "sk") == b"k" && item.contains_key("v")
    };
    let mut root = support::items(server)
        .into_iter()
        .find(is_its)
        .expect("it is there");
    root.remove("b");
    root.insert("f".into(), AttributeValue::N(i64::MIN.to_string()));
    support::put(server, TABLE, root);
}

#[test]
fn a_table_of_layout_1_is_brought_up_to_date_and_decided_on() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let store = || opened(TABLE, &server.endpoint(), Clock::Server);
    let before = store();
    let before = Fixture::at(&before, "t", limits(), machine_time());
    assert!(before.admits(KEY, &[20, 20]));
    let held = before.lease(KEY, &[10, 10], 600 * SECOND);
    let held = held.lease.expect("it fits");
    assert!(before.admits(b"idle/x", &[1, 1]));
    support::of_layout_1(&server, TABLE);
    without_a_record(&server, b"idle");

    let endpoint = server.endpoint();
    let refused = DynamodbStore::open(TABLE, options(&endpoint, Clock::Server)).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("`tidegate dynamodb upgrade`"), "{refused}");
    let table = Administration::new(TABLE, options(&endpoint, Clock::Server)).unwrap();
    let refused = table.create(false).unwrap_err().to_string();
    assert!(refused.contains("made by an older Tidegate"), "{refused}");
    let status = table.status().unwrap();
    assert!(status.layout == Some(1) && !status.is_current());
    assert_eq!(table.upgrade(None).unwrap(), [Done::Layout]);
    assert_eq!(table.status().unwrap().layout, Some(Status::LAYOUT));
    assert_eq!(table.upgrade(None).unwrap(), []);

    // What was taken is, and the rows are listed, though nobody has written them since.
    let after = store();
    let after = Fixture::at(&after, "t", limits(), machine_time());
    assert_eq!(after.left(KEY), [70, 20]);
    let keys = after.table.list_keys(&after.listing(Select::All, 10, None));
    assert_eq!(keys.unwrap().items.len(), 3);
    assert_eq!(after.table.count(after.now()).unwrap().keys, 3);
    let leases = after
        .table
        .list_leases(&after.listing(Select::All, 10, None));
    assert_eq!(leases.unwrap().items.len(), 1);
    after
        .end(KEY, held.id, Ending::Settle(&[Some(3), Some(3)]))
        .expect("it is held");
    assert_eq!(after.left(KEY), [77, 27]);
    assert!(!after.admits(KEY, &[28, 28]));
    assert!(after.admits(KEY, &[27, 27]));
    // One who knows the row as it was before is told by its write that it has another form.
    assert!(!before.admits(KEY, &[1, 1]));
    assert_eq!(after.left(b"idle/x"), [100, 49]);
    assert!(after.admits(b"idle/x", &[1, 1]));
    // What was written is of this layout.
    for item in support::items(&server) {
        let is_root = bytes(&item, "pk")[0] == b'r' && bytes(&item, "sk") == b"k";
        assert!(!is_root || !item.contains_key("v") && !item.contains_key("w"));
    }
}
