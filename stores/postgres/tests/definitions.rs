//! What who follows definitions is told while others change them.

mod support;

use std::thread;
use std::time::Duration;

use support::{options, sql};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::wait_for;
use tidegate_postgres::{Clock, Options, PostgresStore};
use tidegate_store::Store as _;
use tidegate_store::definitions::MOST_CHANGES;
use tokio_postgres::NoTls;

/// Whether a version is noted and what has changed since were two statements: changes between
/// them whose notes pushed the oldest out were never heard of.
#[test]
fn a_change_whose_note_goes_while_it_is_asked_for_is_not_lost() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let options = Options {
        deadline: Duration::from_secs(600),
        ..options(Clock::Server)
    };
    let store = PostgresStore::open(&server.url(), options).expect("a server");
    sql(
        &server,
        &format!(
            "INSERT INTO tidegate.definition_changes
             SELECT 'me', convert_to('k' || n, 'UTF8'), NULL, n
             FROM generate_series(1, {MOST_CHANGES}) AS n;
             INSERT INTO tidegate.definition_versions VALUES ('me', {MOST_CHANGES}, 0)"
        ),
    );
    let known = wait_for(store.definitions("me", 1)).expect("an answer");
    assert_eq!(
        (known.whole, known.changed.len()),
        (false, MOST_CHANGES - 1)
    );
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let (client, connection) = runtime
        .block_on(tokio_postgres::connect(&server.url(), NoTls))
        .expect("a server");
    let driven = runtime.spawn(connection);
    let say = |text: &str| runtime.block_on(client.batch_execute(text)).expect("done");
    // Nobody reads a definition until both changes are made.
    say("BEGIN; LOCK TABLE tidegate.definitions");
    let asked = thread::spawn(move || wait_for(store.definitions("me", 1)));
    while sql(&server, "SELECT count(*) FROM pg_locks WHERE NOT granted") != ["1"] {}
    for key in ["a", "b"] {
        say(&format!(
            "SELECT tidegate.change_definition('me', '{key}', '', NULL, NULL, NULL, NULL, NULL, NULL)"
        ));
    }
    say("COMMIT");
    let told = asked.join().expect("no panic").expect("an answer");
    // The change of `k2` is noted no more.
    assert!(told.whole, "{} changed", told.changed.len());
    assert_eq!(told.changed.len(), 2, "all that is defined");
    drop(client);
    runtime.block_on(driven).expect("a task").expect("an end");
}
