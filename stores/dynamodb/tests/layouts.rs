//! A table that an older program wrote: refused until it is brought up to date, and decided on then.

mod support;

use std::sync::Arc;

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
    support::of_layout_1(&server, TABLE);

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
    assert_eq!(keys.unwrap().items.len(), 2);
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
    // What was written is of this layout.
    for item in support::items(&server) {
        let is_root = bytes(&item, "pk")[0] == b'r' && bytes(&item, "sk") == b"k";
        assert!(!is_root || !item.contains_key("v") && !item.contains_key("w"));
    }
}
