//! The table as an operator has it, on an emulator.

mod support;

use support::counting::{Counting, Fault};
use support::{TABLE, options};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_dynamodb::{
    Administration, Clock, Done, DynamodbError, DynamodbStore, Options, Status,
};

fn of(server: &DynamodbServer, table: &str) -> Administration {
    Administration::new(table, options(&server.endpoint(), Clock::Server)).unwrap()
}

#[test]
fn a_table_is_made_once_looked_at_and_deleted() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let table = of(&server, TABLE);
    let missing = DynamodbError::NotThere(TABLE.to_owned());
    assert_eq!(table.status().unwrap_err(), missing);
    assert_eq!(table.upgrade(None).unwrap_err(), missing);
    assert_eq!(table.delete().unwrap_err(), missing);
    let made = table.create(false).unwrap();
    assert_eq!(made, [Done::Made, Done::Expires, Done::Layout]);
    let status = table.status().unwrap();
    assert!(status.is_current(), "{status:?}");
    assert!(status.on_demand && !status.is_protected, "{status:?}");
    assert_eq!(status.state, "ACTIVE");
    assert_eq!(status.layout, Some(Status::LAYOUT));
    // A second time there is nothing to do, and who may not make a table can decide by it.
    assert_eq!(table.create(false).unwrap(), []);
    assert_eq!(table.upgrade(None).unwrap(), []);
    let options = Options {
        migrate: false,
        ..options(&server.endpoint(), Clock::Server)
    };
    drop(DynamodbStore::open(TABLE, options).unwrap());
    table.delete().unwrap();
    assert_eq!(table.status().unwrap_err(), missing);
}

#[test]
fn a_protected_table_stays_until_it_is_protected_no_longer() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let table = of(&server, TABLE);
    table.create(true).unwrap();
    assert!(table.status().unwrap().is_protected);
    let protected = DynamodbError::Protected(TABLE.to_owned());
    assert_eq!(table.delete().unwrap_err(), protected);
    assert!(table.status().unwrap().is_current());
    assert_eq!(table.upgrade(Some(false)).unwrap(), [Done::Unprotected]);
    assert_eq!(table.upgrade(Some(false)).unwrap(), []);
    assert_eq!(table.upgrade(Some(true)).unwrap(), [Done::Protected]);
    assert_eq!(table.upgrade(Some(false)).unwrap(), [Done::Unprotected]);
    table.delete().unwrap();
}

/// Whatever the name, nothing that is somebody else's is changed or deleted.
#[test]
fn a_table_of_somebody_elses_is_left_alone() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    support::make_foreign(&server, "theirs");
    let table = of(&server, "theirs");
    for wrong in [
        table.status().map(drop),
        table.create(false).map(drop),
        table.upgrade(Some(true)).map(drop),
        table.delete(),
    ] {
        let DynamodbError::Server(words) = wrong.unwrap_err() else {
            panic!("it is there, and not ours");
        };
        assert!(words.contains("was not made for Tidegate"), "{words}");
    }
    assert!(support::is_there(&server, "theirs"));
}

#[test]
fn a_table_of_a_newer_layout_is_not_upgraded_and_told() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let table = of(&server, TABLE);
    table.create(false).unwrap();
    support::of_layout(&server, TABLE, Status::LAYOUT + 1);
    let status = table.status().unwrap();
    assert_eq!(status.layout, Some(Status::LAYOUT + 1));
    assert!(!status.is_current());
    let wrong = table.upgrade(None).unwrap_err().to_string();
    assert!(wrong.contains("made by a newer Tidegate"), "{wrong}");
}

/// It was taken for one that is being deleted, and stayed.
#[test]
fn a_table_that_is_still_changed_is_deleted_once_it_can_be() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    of(&server, TABLE).create(false).unwrap();
    let proxy = Counting::to(server.port());
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    let table = Administration::new(TABLE, options(&endpoint, Clock::Server)).unwrap();
    let busy = Fault::Refused("ResourceInUseException", "it is being created");
    proxy.next(1, &["DeleteTable"], busy);
    table.delete().unwrap();
    assert!(!support::is_there(&server, TABLE));
}

/// It was said to be on, whatever the attribute.
#[test]
fn a_table_that_expires_by_another_attribute_is_told_and_not_taken_for_current() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let table = of(&server, TABLE);
    table.create(false).unwrap();
    support::expire_by(&server, TABLE, "ttl", false);
    support::expire_by(&server, TABLE, "other", true);
    let status = table.status().unwrap();
    assert!(!status.expires && !status.is_current(), "{status:?}");
    support::of_layout(&server, TABLE, Status::LAYOUT - 1);
    let wrong = table.upgrade(None).unwrap_err().to_string();
    assert!(wrong.contains("time to live"), "{wrong}");
    // Programs of the older layout can still decide by it.
    assert_eq!(table.status().unwrap().layout, Some(Status::LAYOUT - 1));
}

/// A table that a template made had no layout for good, so that a later one would be taken for new.
#[test]
fn who_decides_by_a_table_without_a_layout_writes_it() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let table = of(&server, TABLE);
    table.create(false).unwrap();
    support::without_layout(&server, TABLE);
    assert_eq!(table.status().unwrap().layout, None);
    let options = Options {
        migrate: false,
        ..options(&server.endpoint(), Clock::Server)
    };
    drop(DynamodbStore::open(TABLE, options).unwrap());
    assert!(table.status().unwrap().is_current());
}
