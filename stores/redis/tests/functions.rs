//! Functions where the server allows them, and scripts where it does not.

mod support;

use redis::{Connection, Value};
use support::{Fixture, SECOND, ask, connect, hourly, machine_time, plan, slots};
use tidegate_conformance::redis_server::{RedisCluster, RedisServer};
use tidegate_redis::{Options, RedisStore};
use tidegate_store::Ending;

fn fixture_at(url: &str) -> Fixture {
    let options = Options {
        deadline: std::time::Duration::from_secs(30),
        ..Options::default()
    };
    let store = RedisStore::open(url, options).expect("a server");
    let plan = plan(0, 1, &[(0, hourly(100)), (0, slots(9))]);
    Fixture::at(&store, "t", plan, machine_time())
}

/// A Redis and a Valkey, as far as there are.
fn servers() -> impl Iterator<Item = RedisServer> {
    let both = [RedisServer::start(), RedisServer::start_valkey()];
    both.into_iter().flatten()
}

/// Takes, holds and gives back: whatever a store asks.
fn goes_on(fixture: &mut Fixture) {
    let before = fixture.left(b"k");
    assert!(fixture.admits(b"k", &[1, 0]));
    let lease = fixture.lease(b"k", &[1, 1], 600 * SECOND);
    let id = lease.lease.expect("it fits").id;
    assert_eq!(fixture.left(b"k"), [before[0] - 2, before[1] - 1]);
    fixture.end(b"k", id, Ending::Release).expect("an end");
    assert_eq!(fixture.left(b"k"), [before[0] - 2, before[1]]);
}

/// What the server counted of `command`: calls, and those that it rejected.
fn counted(connection: &mut Connection, command: &str, what: &str) -> u64 {
    let stats: String = ask(connection, &["INFO", "commandstats"]);
    let name = format!("cmdstat_{command}:");
    let line = stats.lines().find(|line| line.starts_with(&name));
    let value = line.and_then(|line| line.split(&format!("{what}=")).nth(1)?.split(',').next());
    value.map_or(0, |value| value.trim().parse().expect("a number"))
}

/// The names of the libraries there are, and their texts.
fn libraries(connection: &mut Connection) -> Vec<(String, String)> {
    let list: Vec<Vec<Value>> = ask(connection, &["FUNCTION", "LIST", "WITHCODE"]);
    let text = |value: &Value| redis::from_redis_value_ref::<String>(value).unwrap_or_default();
    let after = |library: &[Value], field: &str| {
        let at = library.iter().position(|value| text(value) == field);
        text(&library[at.expect("a field") + 1])
    };
    let found = list.iter().map(|library| {
        (
            after(library, "library_name"),
            after(library, "library_code"),
        )
    });
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    found
}

#[test]
fn a_server_defines_the_library_once_and_no_script() {
    for server in servers() {
        for _ in 0..2 {
            goes_on(&mut fixture_at(&server.url()));
        }
        let mut connection = connect(&server);
        assert_eq!(libraries(&mut connection).len(), 1);
        assert_eq!(counted(&mut connection, "function|load", "calls"), 1);
        assert_eq!(counted(&mut connection, "evalsha", "calls"), 0);
    }
}

#[test]
fn a_user_who_may_not_use_functions_goes_on_by_scripts() {
    for server in servers() {
        let mut connection = connect(&server);
        let users = [
            ("loads", "-fcall"),
            ("calls", "-function"),
            ("none", "-function"),
        ];
        for (user, denied) in users {
            let also = if user == "none" { "-fcall" } else { "+ping" };
            let () = ask(
                &mut connection,
                &[
                    "ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", denied, also,
                ],
            );
            let () = ask(&mut connection, &["CONFIG", "RESETSTAT"]);
            let url = server.url().replace("//", &format!("//{user}:secret@"));
            goes_on(&mut fixture_at(&url));
            assert!(counted(&mut connection, "evalsha", "calls") > 0, "{user}");
            let (failed, rejected) = (
                counted(&mut connection, "fcall", "failed_calls"),
                counted(&mut connection, "fcall", "rejected_calls"),
            );
            // It is not requested again and again.
            assert_eq!(failed + rejected, 1, "{user}");
        }
        assert_eq!(libraries(&mut connection), []);
    }
}

#[test]
fn a_server_without_functions_goes_on_by_scripts() {
    for command in ["FUNCTION", "FCALL"] {
        let Some(server) = RedisServer::start_with(&["--rename-command", command, ""]) else {
            return;
        };
        goes_on(&mut fixture_at(&server.url()));
        let calls = counted(&mut connect(&server), "evalsha", "calls");
        assert!(calls > 0, "{command}");
    }
}

#[test]
fn a_server_that_lost_its_functions_is_given_them_again() {
    for server in servers() {
        let (mut fixture, mut connection) = (fixture_at(&server.url()), connect(&server));
        for _ in 0..3 {
            goes_on(&mut fixture);
            let () = ask(&mut connection, &["FUNCTION", "FLUSH"]);
        }
        goes_on(&mut fixture);
        assert_eq!(counted(&mut connection, "evalsha", "calls"), 0);
    }
}

#[test]
fn versions_of_the_library_live_beside_each_other() {
    for server in servers() {
        let (mut fixture, mut connection) = (fixture_at(&server.url()), connect(&server));
        goes_on(&mut fixture);
        let ours = libraries(&mut connection).remove(0);
        // Another version: another text, and so another name.
        let other = ours.0.replace("tidegate_", "tidegate_0");
        let text = ours.1.replace(&ours.0, &other);
        let loaded: String = ask(&mut connection, &["FUNCTION", "LOAD", &text]);
        assert_eq!(loaded, other);
        goes_on(&mut fixture);
        let () = ask(&mut connection, &["FUNCTION", "DELETE", &ours.0]);
        goes_on(&mut fixture);
        let names = libraries(&mut connection).into_iter().map(|(name, _)| name);
        assert_eq!(names.collect::<Vec<_>>(), [other, ours.0]);
        assert_eq!(counted(&mut connection, "evalsha", "calls"), 0);
    }
}

#[test]
fn every_master_of_a_cluster_is_given_the_library() {
    let Some(cluster) = RedisCluster::start() else {
        return;
    };
    let url = cluster.url();
    let fixture = fixture_at(&url);
    for key in 0..24 {
        let key = format!("key {key}").into_bytes();
        assert!(fixture.admits(&key, &[1, 0]));
        assert!(fixture.lease(&key, &[1, 1], 600 * SECOND).lease.is_some());
    }
    let nodes = url.strip_prefix("redis+cluster://").expect("a cluster");
    for node in nodes.split(',') {
        let client = redis::Client::open(format!("redis://{node}")).expect("an address");
        let mut connection = client.get_connection().expect("a node");
        assert_eq!(libraries(&mut connection).len(), 1, "{node}");
        assert!(counted(&mut connection, "fcall", "calls") > 1, "{node}");
        assert_eq!(counted(&mut connection, "evalsha", "calls"), 0, "{node}");
    }
}
