//! What the DynamoDB table itself has left of a namespace that was cleared.

mod support;

use std::sync::Arc;

use support::{TABLE, items, table};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::namespace::{clear, fill};
use tidegate_conformance::wait_for;
use tidegate_dynamodb::Clock;
use tidegate_store::{NamespacedStore, Store, StoreError};

#[test]
fn of_a_namespace_that_was_cleared_the_table_has_no_item() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let store: Arc<dyn Store> = table(TABLE, &server.endpoint(), Clock::Server);
    let of_layout = items(&server).len();
    let space = NamespacedStore::new(Arc::clone(&store), "a");
    let other = NamespacedStore::new(store, "ab");
    fill(&other);
    let of_other = items(&server).len();
    assert!(of_other > of_layout + 100);
    fill(&space);
    let filled = items(&server).len();
    assert_eq!(clear(&space), Ok((filled - of_other) as u64));
    assert_eq!(items(&server).len(), of_other);
    assert_eq!(clear(&other), Ok((of_other - of_layout) as u64));
    assert_eq!(items(&server).len(), of_layout);
}

#[test]
fn a_place_that_is_none_is_refused_and_so_is_a_beginning_that_is_too_long() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let store: Arc<dyn Store> = table(TABLE, &server.endpoint(), Clock::Server);
    for place in [&b""[..], b"\0", b"\0\x09ab", b"\0\x02ab"] {
        let refused = wait_for(store.clear("", Some(place)));
        assert_eq!(refused.err(), Some(StoreError::UnknownPage), "{place:?}");
    }
    let longest = NamespacedStore::new(Arc::clone(&store), &"a".repeat(167));
    assert_eq!(clear(&longest), Ok(0));
    let too_long = NamespacedStore::new(store, &"a".repeat(168));
    assert_eq!(clear(&too_long), Err(StoreError::CannotClear));
}
