//! What the server itself has left of a namespace that was cleared.

mod support;

use std::sync::Arc;

use support::{open, sql};
use tidegate_conformance::namespace::{
    clear, fill, one_that_is_open_is_told_that_it_was_cleared,
    one_that_is_opened_amid_a_clear_stays,
};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::Clock;
use tidegate_store::{NamespacedStore, Store};

/// How many rows all SQL tables have but that of the schema's versions.
const ROWS: &str = "SELECT sum((xpath('/row/c/text()', query_to_xml(
        format('SELECT count(*) AS c FROM tidegate.%I', tablename), false, true, '')))[1]::text::int)
    FROM pg_tables WHERE schemaname = 'tidegate' AND tablename <> 'migrations'";

#[test]
fn of_a_namespace_that_was_cleared_the_server_has_no_row() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store: Arc<dyn Store> = Arc::new(open(&server, Clock::Server));
    let rows = || sql(&server, ROWS)[0].parse::<u64>().expect("a number");
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

/// It was taken for an outage: a breaker then kept every other namespace from the store, too.
#[test]
fn a_set_that_was_cleared_is_gone_and_the_store_has_not_failed() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let space = || NamespacedStore::new(Arc::new(open(&server, Clock::Server)), "a");
    one_that_is_open_is_told_that_it_was_cleared(&space(), &space());
}

/// Its name went last: who opened it meanwhile had what was being deleted.
#[test]
fn a_set_that_is_opened_after_the_first_step_of_a_clear_is_another() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let space = NamespacedStore::new(Arc::new(open(&server, Clock::Server)), "a");
    one_that_is_opened_amid_a_clear_stays(&space);
}
