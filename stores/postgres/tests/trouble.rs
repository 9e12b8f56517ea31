//! A server that fails: an error that says how, within the deadline.

mod support;

use std::net::TcpListener;
use std::time::Duration;

use support::{Fixture, hourly, machine_time, open, options, plan, sql};
use tidegate_conformance::Hole;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::{Clock, Options, PostgresError, PostgresStore};
use tidegate_store::StoreError;
use tokio_postgres::NoTls;

const PASSWORD: &str = "hunter-2-is-secret";

fn words(error: Result<impl Sized, StoreError>) -> String {
    match error {
        Err(StoreError::Unavailable(words)) => words,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("answered"),
    }
}

#[test]
fn a_password_is_in_no_message() {
    let addresses = [
        format!("postgres://user:{PASSWORD}@127.0.0.1:1/db"),
        format!("postgres://user:{PASSWORD}@127.0.0.1:notaport/db"),
        format!("postgres://user:{PASSWORD}@127.0.0.1:1/db?{PASSWORD}=1"),
        format!("http://user:{PASSWORD}@127.0.0.1"),
        format!("host=127.0.0.1 port=1 password={PASSWORD}"),
        PASSWORD.to_owned(),
    ];
    for address in addresses {
        let error = PostgresStore::open(&address, options(Clock::Server)).expect_err("refused");
        let said = format!("{error} {error:?}");
        assert!(!said.contains("hunter"), "{said}");
    }
}

#[test]
fn an_option_that_makes_no_sense_is_told() {
    let none = Options {
        connections: 0,
        ..options(Clock::Server)
    };
    let error = PostgresStore::open("postgres://127.0.0.1:1/db", none);
    assert!(matches!(error, Err(PostgresError::Option(_))));
}

#[test]
fn a_server_that_is_not_there_is_told_at_open() {
    // Port 1 of this machine: nobody listens, and nobody may without leave.
    let error = PostgresStore::open("postgres://127.0.0.1:1/db", options(Clock::Server));
    let Err(PostgresError::Server(words)) = error else {
        panic!("opened")
    };
    assert!(words.contains("PostgreSQL server"), "{words}");
}

/// It takes connections and says nothing.
#[test]
fn a_server_that_says_nothing_holds_nobody_beyond_the_deadline() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address");
    let hasty = Options {
        deadline: Duration::from_millis(300),
        ..options(Clock::Server)
    };
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let error = PostgresStore::open(&format!("postgres://{address}/db"), hasty);
        tell.send(error.map(drop)).expect("the test waits");
    });
    let error = told.recv_timeout(Duration::from_secs(20));
    assert!(matches!(error, Ok(Err(PostgresError::Server(_)))));
}

/// Somebody else has the table: an error, in the deadline, and then it goes on by
/// other connections.
#[test]
fn a_command_that_takes_too_long_is_given_up_here_and_there() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let hasty = Options {
        deadline: Duration::from_secs(2),
        connections: 2,
        ..options(Clock::Server)
    };
    let store = PostgresStore::open(&server.url(), hasty).expect("a server");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let other = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls)
            .await
            .expect("a server");
        tokio::spawn(connection);
        let lock = "BEGIN; LOCK TABLE tidegate.rows";
        client.batch_execute(lock).await.expect("a lock");
        client
    });
    for _ in 0..3 {
        let told = fixture.take(b"k", &[1]).expect_err("it is locked");
        let is_told = matches!(&told, StoreError::Busy(said) if said.contains("the lock"));
        // On a machine that is slow itself.
        assert!(is_told || words(Err::<(), _>(told)).contains("no answer"));
    }
    runtime
        .block_on(other.batch_execute("ROLLBACK"))
        .expect("an end");
    // Whatever was given up here before it was there may have been executed.
    let patient = open(&server, Clock::Server);
    let fixture = Fixture::at(&patient, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!((5..=8).contains(&fixture.left(b"k")[0]));
}

#[test]
fn a_server_that_was_killed_is_an_error_and_then_goes_on_where_it_was() {
    let Some(mut server) = PostgresServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[3]));
    server.kill();
    // Its children answer until they notice.
    let refused = (0..100_000).find_map(|_| fixture.take(b"k", &[0]).err());
    let said = words(Err::<(), _>(refused.expect("an error")));
    assert!(said.contains("PostgreSQL server"), "{said}");
    server.start_again();
    // The pool finds out by itself which of its connections are gone.
    let left = (0..100).find_map(|_| fixture.take(b"k", &[0]).ok().map(|_| fixture.left(b"k")));
    assert_eq!(left, Some(vec![6]));
}

/// A name is the primary: after a failover it leads to a standby for a while, as names
/// do, and then to the new primary. The connection to the standby was kept for ever.
#[test]
fn after_a_failover_a_name_is_followed_to_the_server_that_takes_writes() {
    let (Some(mut old), Some(new)) = (PostgresServer::start(), PostgresServer::start()) else {
        return;
    };
    let plan = plan(0, 1, &[(0, hourly(9))]);
    // What replication would have brought there, under the number that it has here.
    let replica = open(&new, Clock::Server);
    let name = Hole::to(old.port());
    let address = format!("postgres://tidegate@127.0.0.1:{}/postgres", name.port());
    let store = PostgresStore::open(&address, options(Clock::Server)).expect("a server");
    let set = "INSERT INTO tidegate.sets (tab, name) OVERRIDING SYSTEM VALUE VALUES (7, 't')";
    for server in [&old, &new] {
        sql(server, set);
    }
    assert!(Fixture::at(&replica, "t", plan.clone(), machine_time()).admits(b"k", &[4]));
    let fixture = Fixture::at(&store, "t", plan, machine_time());
    assert!(fixture.admits(b"k", &[1]));
    old.kill();
    old.start_again_as_standby();
    let is_standby = |said: &String| said.contains("name the primary");
    let refused = (0..100).find_map(|_| Some(words(fixture.take(b"k", &[1]))).filter(is_standby));
    assert!(refused.is_some(), "it is read, and not written");
    name.lead_to(new.port());
    assert!(fixture.admits(b"k", &[4]), "by the new primary");
    assert_eq!(fixture.left(b"k"), [1]);
}
