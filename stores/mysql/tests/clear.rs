//! What the server itself has left of a namespace that was cleared.

mod support;

use std::sync::Arc;

use support::{number, open};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::namespace::{
    clear, fill, one_that_is_open_is_told_that_it_was_cleared,
    one_that_is_opened_amid_a_clear_stays,
};
use tidegate_conformance::wait_for;
use tidegate_mysql::Clock;
use tidegate_store::{NamespacedStore, Store, StoreError};

/// The SQL tables, but for that of the schema's version.
const TABLES: [&str; 10] = [
    "tables",
    "plans",
    "rows",
    "leases",
    "usage",
    "turns",
    "definitions",
    "definition_versions",
    "definition_changes",
    "definition_events",
];

#[test]
fn of_a_namespace_that_was_cleared_the_server_has_no_row() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store: Arc<dyn Store> = Arc::new(open(&server, Clock::Server));
    let rows = || {
        let of = |table| number(&server, &format!("SELECT COUNT(*) FROM tidegate_{table}"));
        TABLES.into_iter().map(of).sum::<u64>()
    };
    let space = NamespacedStore::new(Arc::clone(&store), "a_%");
    let other = NamespacedStore::new(store, "a_%b");
    assert_eq!(rows(), 0);
    fill(&other);
    let of_other = rows();
    fill(&space);
    assert_eq!(rows(), 2 * of_other);
    clear(&space).expect("an answer");
    assert_eq!(rows(), of_other);
    clear(&other).expect("an answer");
    assert_eq!(rows(), 0);
}

/// It was taken for an outage, though the server answers.
#[test]
fn a_beginning_of_names_that_is_too_long_is_refused() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store: Arc<dyn Store> = Arc::new(open(&server, Clock::Server));
    let longest = NamespacedStore::new(Arc::clone(&store), &"a".repeat(167));
    assert!(wait_for(longest.clear("", None)).is_ok());
    let too_long = NamespacedStore::new(store, &"a".repeat(168));
    let refused = wait_for(too_long.clear("", None));
    assert_eq!(refused, Err(StoreError::CannotClear));
}

/// It was taken for an outage: a breaker then kept every other namespace from the store, too.
#[test]
fn a_set_that_was_cleared_is_gone_and_the_store_has_not_failed() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let space = || NamespacedStore::new(Arc::new(open(&server, Clock::Server)), "a");
    one_that_is_open_is_told_that_it_was_cleared(&space(), &space());
}

/// Its name went last: who opened it meanwhile had what was being deleted.
#[test]
fn a_set_that_is_opened_after_the_first_step_of_a_clear_is_another() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let space = NamespacedStore::new(Arc::new(open(&server, Clock::Server)), "a");
    one_that_is_opened_amid_a_clear_stays(&space);
}
