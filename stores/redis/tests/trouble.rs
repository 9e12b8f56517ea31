//! A server that fails: an error that says how, within the deadline.

mod support;

use std::time::Duration;

use support::{Fixture, ask, connect, hourly, machine_time, open, plan};
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::{Hole, Paused, TableExt};
use tidegate_redis::{Clock, Options, RedisError, RedisStore};
use tidegate_store::{Detail, Out, OwnedKey, Reply, Select, StoreError, Verb};

const PASSWORD: &str = "hunter-2-is-secret";

fn options(millis: u64) -> Options {
    Options {
        deadline: Duration::from_millis(millis),
        ..Options::default()
    }
}

fn words(error: Result<impl Sized, StoreError>) -> String {
    match error {
        Err(StoreError::Unavailable(words)) => words,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("answered"),
    }
}

#[test]
fn a_password_is_in_no_message() {
    let Some(server) = RedisServer::start_with(&["--requirepass", "another"]) else {
        return;
    };
    let port = server.port();
    let addresses = [
        format!("redis://:{PASSWORD}@127.0.0.1:{port}"),
        format!("redis://user:{PASSWORD}@127.0.0.1:{port}/no-number"),
        format!("http://user:{PASSWORD}@127.0.0.1:{port}"),
        format!("redis://user:{PASSWORD}@127.0.0.1:notaport"),
        PASSWORD.to_owned(),
    ];
    for address in &addresses {
        let error = RedisStore::open(address, options(20_000)).expect_err("refused");
        let said = format!("{error} {error:?}");
        assert!(!said.contains("hunter"), "{said}");
    }
    let wrong = RedisStore::open(&addresses[0], options(20_000)).expect_err("refused");
    let said = wrong.to_string();
    assert!(said.contains("did not accept the password"), "{said}");
    let address = format!("redis://:another@127.0.0.1:{port}");
    let store = RedisStore::open(&address, options(20_000)).expect("the right password");
    assert!(!format!("{store:?}").contains("another"));
}

#[test]
fn a_server_that_is_not_there_is_told_at_open() {
    // Port 1 of this machine: nobody listens, and nobody may without leave.
    let error = RedisStore::open("redis://127.0.0.1:1", options(20_000));
    let Err(RedisError::Server(words)) = error else {
        panic!("opened")
    };
    let said = "the Redis server at 127.0.0.1:1 cannot be reached";
    assert!(words.contains(said), "{words}");
}

/// It said `cannot be reached: broken pipe`, of a PostgreSQL.
#[test]
fn a_port_of_another_server_asks_whether_it_is_redis() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        // It hangs up on what it does not understand.
        for stream in listener.incoming().take(100).flatten() {
            let _ = std::io::Read::read(&mut &stream, &mut [0; 8]);
        }
    });
    let error = RedisStore::open(&format!("redis://127.0.0.1:{port}"), options(20_000));
    let Err(RedisError::Server(words)) = error else {
        panic!("opened")
    };
    assert!(words.contains("is it Redis"), "{words}");
    let error = RedisStore::open("redis://127.0.0.1:1", options(20_000));
    let words = error.map(|_| ()).expect_err("nobody listens").to_string();
    assert!(!words.contains("is it Redis"), "{words}");
}

/// Each of the first asks waited for several attempts to connect, which took longer than
/// its deadline, and said that its command may have been executed.
#[test]
fn a_refused_connection_is_told_at_once_and_the_next_ask_tries_again() {
    let Some(mut server) = RedisServer::start() else {
        return;
    };
    let store = RedisStore::open(&server.url(), options(3_000)).expect("a server");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
    server.kill();
    // The first is told that its connection was lost.
    words(fixture.take(b"k", &[1]));
    let place = format!("at 127.0.0.1:{} cannot be reached", server.port());
    for _ in 0..5 {
        let said = words(fixture.take(b"k", &[1]));
        assert!(said.contains(&place), "{said}");
    }
    server.start_again();
    assert!(fixture.admits(b"k", &[1]), "at the first ask");
}

#[test]
fn a_paused_server_is_an_error_within_the_deadline_and_then_goes_on() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let quick = RedisStore::open(&server.url(), options(3_000)).expect("a server");
    let fixture = Fixture::at(&quick, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    let paused = Paused::new(server.pid());
    let said = words(fixture.take(b"k", &[1]));
    assert!(
        said.contains("no answer") || said.contains("does not answer"),
        "{said}"
    );
    drop(paused);
    // It decides again, by a store whose deadline a loaded machine keeps.
    let patient = open(&server, Clock::Server);
    let fixture = Fixture::at(&patient, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
}

/// A router that was restarted, a firewall that forgot: nobody closes anything.
#[test]
fn a_connection_that_loses_everything_is_made_anew() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let way = Hole::to(server.port());
    let address = format!("redis://127.0.0.1:{}", way.port());
    let store = RedisStore::open(&address, options(1_000)).expect("a server");
    let fixture = Fixture::at(
        &store,
        "t",
        plan(0, 1, &[(0, hourly(1_000))]),
        machine_time(),
    );
    assert!(fixture.admits(b"k", &[1]));
    for _ in 0..2 {
        way.swallow();
        // What is asked on the old one is told in time, and is the last of it but for
        // what a loaded machine is slow at.
        let lost = (0..20).take_while(|_| fixture.take(b"k", &[1]).is_err());
        let lost = lost.count();
        assert!((1..20).contains(&lost), "{lost} asks in vain");
    }
}

#[test]
fn a_script_that_the_server_forgot_is_handed_over_again() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let by_scripts = Options {
        functions: false,
        ..options(30_000)
    };
    let store = RedisStore::open(&server.url(), by_scripts).expect("a server");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    let mut connection = connect(&server);
    for left in [8, 7, 6] {
        assert!(fixture.admits(b"k", &[1]));
        assert_eq!(fixture.left(b"k"), [left]);
        let () = ask(&mut connection, &["SCRIPT", "FLUSH"]);
    }
}

#[test]
fn a_full_server_admits_nothing_and_says_what_to_do() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
    let mut connection = connect(&server);
    let () = ask(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]);
    // Which is no outage: that would open the breaker for all who use it.
    let told = fixture.take(b"k", &[1]).expect_err("there is no room");
    let is_full = matches!(&told, StoreError::Full(why) if why.contains("maxmemory"));
    assert!(is_full && told.outage().is_none(), "{told}");
    let listing = fixture.listing(Select::All, 10, None);
    let listed = fixture.table.list_keys(&listing).expect("a page");
    assert_eq!(listed.items, [OwnedKey::new(b"k")]);
    let () = ask(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(fixture.left(b"k"), [8]);
}

#[test]
fn a_replica_is_named_as_one() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
    let mut connection = connect(&server);
    let () = ask(&mut connection, &["REPLICAOF", "127.0.0.1", "1"]);
    let said = words(fixture.take(b"k", &[1]));
    assert!(said.contains("replica"), "{said}");
    let () = ask(&mut connection, &["REPLICAOF", "NO", "ONE"]);
    assert!(fixture.admits(b"k", &[1]));
}

/// A command goes on when nobody waits for it any more; and a runtime's own
/// threads may ask, also in the way that blocks.
#[test]
fn a_command_that_is_sent_is_executed_also_when_its_answer_is_not_awaited() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(100))]), machine_time());
    let verb = Verb::Take {
        amounts: &[10],
        lease: None,
        detail: Detail::Verdict,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(async {
        let send = || {
            let (mut answer, command) = (Ok(Reply::Done), fixture.command(b"k", verb).into());
            let execution = fixture.table.execute(&command, Out::new(&mut answer));
            execution.pending().expect("a remote table")
        };
        drop(send());
        send().await.expect("an answer");
        assert!(fixture.admits(b"k", &[10]));
    });
    // It was under way: the answer to a later command says nothing about it.
    let executed = (0..10_000).any(|_| fixture.left(b"k") == [70]);
    assert!(executed, "{:?}", fixture.left(b"k"));
}

/// A name is the master: after a failover it leads to another server, and the old one,
/// a replica now, keeps its connections. They were kept here, too, for ever.
#[test]
fn after_a_failover_a_name_is_followed_to_the_server_that_takes_writes() {
    let (Some(old), Some(new)) = (RedisServer::start(), RedisServer::start()) else {
        return;
    };
    let port = |server: &RedisServer| server.port().to_string();
    let replicate = |server: &RedisServer, of: [&str; 2]| {
        let () = ask(&mut connect(server), &["REPLICAOF", of[0], of[1]]);
    };
    replicate(&new, ["127.0.0.1", &port(&old)]);
    let name = Hole::to(old.port());
    let address = format!("redis://127.0.0.1:{}", name.port());
    for functions in [true, false] {
        let opened = RedisStore::open(
            &address,
            Options {
                functions,
                ..options(30_000)
            },
        );
        let store = opened.expect("a server");
        let table = format!("functions {functions}");
        let plan = plan(0, 1, &[(0, hourly(9))]);
        let fixture = Fixture::at(&store, &table, plan, machine_time());
        assert!(fixture.admits(b"k", &[4]));
        let seen: i64 = ask(&mut connect(&old), &["WAIT", "1", "30000"]);
        assert_eq!(seen, 1, "it is replicated");
        replicate(&new, ["NO", "ONE"]);
        replicate(&old, ["127.0.0.1", &port(&new)]);
        name.lead_to(new.port());
        assert!(fixture.admits(b"k", &[4]), "by the new master");
        assert_eq!(fixture.left(b"k"), [1]);
        // And back again, for the next.
        let seen: i64 = ask(&mut connect(&new), &["WAIT", "1", "30000"]);
        assert_eq!(seen, 1, "it is replicated");
        replicate(&old, ["NO", "ONE"]);
        replicate(&new, ["127.0.0.1", &port(&old)]);
        name.lead_to(old.port());
    }
}
