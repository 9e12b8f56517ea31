//! How much the server reads for a page.

mod support;

use support::{machine_time, number, open};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::wait_for;
use tidegate_mysql::Clock;
use tidegate_store::Store as _;
use tidegate_store::definitions::event_cursor;

/// Rows and entries of indexes that were read by all.
const READ: &str = "SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS \
    WHERE VARIABLE_NAME LIKE 'HANDLER_READ%'";

/// Of an owner with very many definitions and events a page reads what is on it.
#[test]
fn a_page_of_definitions_or_events_reads_what_is_on_it() {
    const MANY: u64 = 20_000;
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    server.ask(&format!(
        "INSERT INTO tidegate_definitions (owner, name, whole, body, version, ends_at) \
         SELECT 'me', CONCAT('k', LPAD(seq, 9, '0')), NULL, '', seq, NULL FROM seq_1_to_{MANY}"
    ));
    server.ask(&format!(
        "INSERT INTO tidegate_definition_events \
         (owner, version, subject, whole, body, at, ends_at, most) \
         SELECT 'me', seq, seq % 2, NULL, '', 0, {}, 1 FROM seq_1_to_{MANY}",
        i64::MAX
    ));
    let before = number(&server, READ);
    // What a look at it costs.
    let look = number(&server, READ) - before;
    for prefix in [&b""[..], b"k", b"k00000123"] {
        let page = store.definitions_page("me", prefix, Some(b"k000001234"), 5);
        let page = wait_for(page).expect("an answer");
        assert_eq!(page.items.len(), 5);
    }
    for subject in [None, Some(&b"1"[..])] {
        let after = event_cursor(MANY / 2);
        let page = store.events("me", subject, Some(&after), 10, machine_time());
        assert_eq!(wait_for(page).expect("an answer").items.len(), 10);
    }
    let read = number(&server, READ) - before - look;
    assert!(
        read < 3_000,
        "{read} rows for 35, {look} of them for a look"
    );
}
