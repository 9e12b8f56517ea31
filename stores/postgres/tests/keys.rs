//! Keys as an index holds them.

mod support;

use support::{Fixture, machine_time, open, plan, rate, sql};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::Clock;

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
