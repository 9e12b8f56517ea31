//! What who follows definitions is told while others change them.

mod support;

use std::thread;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use support::{number, options};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::wait_for;
use tidegate_mysql::{Clock, MysqlStore, Options};
use tidegate_store::Store as _;
use tidegate_store::definitions::MOST_CHANGES;

/// How many wait until a table may be read.
const WAIT: &str = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
    WHERE STATE LIKE 'Waiting for table metadata lock%'";

/// Whether a version is noted and what has changed since were two statements: changes between
/// them whose notes pushed the oldest out were never heard of.
#[test]
fn a_change_whose_note_goes_while_it_is_asked_for_is_not_lost() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let options = Options {
        deadline: Duration::from_secs(600),
        ..options(Clock::Server)
    };
    let store = MysqlStore::open(&server.url(), options).expect("a server");
    let note = |from, to| {
        format!(
            "INSERT INTO tidegate_definition_changes (owner, name, whole, version) \
             SELECT 'me', CONCAT('k', seq), NULL, seq FROM seq_{from}_to_{to}"
        )
    };
    let most = MOST_CHANGES;
    server.ask(&format!(
        "{}; INSERT INTO tidegate_definition_versions (owner, version, events) \
         VALUES ('me', {most}, 0)",
        note(1, most)
    ));
    let known = wait_for(store.definitions("me", 1)).expect("an answer");
    assert_eq!((known.whole, known.changed.len()), (false, most - 1));
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let opts = Opts::from_url(&server.url()).expect("an address");
    let mut conn = runtime.block_on(Conn::new(opts)).expect("a server");
    let mut say = |text: &str| runtime.block_on(conn.query_drop(text)).expect("done");
    // Nobody reads a definition until both changes are made.
    say("LOCK TABLES tidegate_definitions WRITE");
    let asked = thread::spawn(move || wait_for(store.definitions("me", 1)));
    while number(&server, WAIT) != 1 {}
    server.ask(&format!(
        "BEGIN; {}; DELETE FROM tidegate_definition_changes WHERE version <= 2; \
         UPDATE tidegate_definition_versions SET version = {}; COMMIT",
        note(most + 1, most + 2),
        most + 2
    ));
    say("UNLOCK TABLES");
    let told = asked.join().expect("no panic").expect("an answer");
    // The change of `k2` is noted no more.
    assert!(told.whole, "{} changed", told.changed.len());
    assert_eq!(told.version, most as u64 + 2);
    runtime.block_on(conn.disconnect()).expect("an end");
}
