//! Numbers of every size.

mod support;

use support::open;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::wide;
use tidegate_postgres::Clock;

#[test]
fn numbers_of_every_size_are_computed_to_the_last_unit() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    wide(&open(&server, Clock::Caller), |at| at);
}
