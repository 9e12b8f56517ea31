//! Keys as an index holds them.

mod support;

use support::{Fixture, SECOND, machine_time, open, plan, rate, sql};
use tidegate_conformance::TableExt;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::Clock;
use tidegate_store::{Ending, Select};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
    let byte = |pair| u8::from_str_radix(pair, 16).expect("two digits");
    pairs.map(byte).collect()
}

/// A long key stands in the index by its beginning and its hash, which whoever
/// chooses keys can choose for a key, too.
#[test]
fn a_key_that_is_what_a_longer_ones_index_says_is_a_key_of_its_own() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, rate(1, 9))]), machine_time());
    let long = [b'x'; 300];
    assert!(fixture.admits(&long, &[9]));
    let of_long = format!(
        "SELECT encode(tidegate.short(decode('{}', 'hex')), 'hex')",
        hex(&long)
    );
    let alike = bytes(&sql(&server, &of_long)[0]);
    assert_eq!(alike.len(), 256);
    assert!(fixture.admits(&alike, &[9]));
    assert!(!fixture.admits(&alike, &[9]) && !fixture.admits(&long, &[9]));
}

/// What a lease may take partly, and of which nothing was left, leaves a row without a state.
#[test]
fn keys_are_listed_after_a_lease_that_took_nothing() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, rate(1, 9))]), machine_time());
    for (key, seconds) in [(b"lives", 900), (b"ended", 0)] {
        let lease = fixture.lease(key, &[0], seconds * SECOND + 1).lease;
        let id = lease.expect("nothing fits").id;
        fixture.end(key, id, Ending::Release).expect("remembered");
    }
    let listed = |fixture: &Fixture| {
        let listing = fixture.listing(Select::All, 1_000, None);
        let page = fixture.table.list_keys(&listing).expect("a page");
        page.items.len()
    };
    assert_eq!(listed(&fixture), 0);
    assert!(fixture.admits(b"lives", &[9]));
    assert_eq!(listed(&fixture), 1);
    let without =
        "SELECT count(*)::text FROM tidegate.rows WHERE forget_at IS NULL AND tat IS NULL";
    assert_eq!(sql(&server, without), ["0"]);
}
