//! What a server tells whoever runs it: settings that changed and do not hold yet, a store
//! that was emptied, and whose fault an error is.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use tidegate_conformance::Beyond;

use crate::http::Http;
use crate::server::{FILE, Server, folder, patient, until};

const POLICY: &str = "[policy.web.limits]\nrpm = { calls = 10, per = '1h' }\n\
    tpm = { rate = 10, per = '1h' }\n";

const OF_ENTITIES: &str = "[policy.web]\nkey = 'org/team/user'\npartial_keys = true\n\
    [policy.web.limits]\nteam_rpm = { calls = 5, per = '1h', level = 'team' }\n\
    rpm = { calls = 5, per = '1h', level = 'user' }\n";

/// They changed without a word, and nobody knew that a start was needed.
#[test]
fn settings_that_hold_from_the_next_start_on_are_named_when_they_change() {
    let folder = folder(POLICY);
    let server = Server::start(folder.path(), &["--store", "memory:"]);
    let text = format!("[server]\nhttp = 'localhost:1'\nlongest_wait = '3s'\n{POLICY}");
    std::fs::write(folder.path().join(FILE), text).expect("written");
    server.hang_up();
    until("a warning", || {
        server.logged("`http`, `longest_wait` changed: restart the server to apply this") > 0
    });
}

/// All of it was counted as `failed`, and an alert on a store that is away rang for a typing
/// error.
#[test]
fn what_its_caller_must_change_is_counted_apart_from_what_failed() {
    let folder = folder(POLICY);
    let server = Server::start(folder.path(), &["--store", "memory:"]);
    let mut http = Http::connect(server.http).expect("it listens");
    let requests = [
        (400, json!({"policy": "web", "key": "k"})),
        (
            400,
            json!({"policy": "web", "key": "k", "amounts": {"tqm": 1}}),
        ),
        (
            422,
            json!({"policy": "web", "key": "k", "amounts": {"tpm": 11}}),
        ),
    ];
    for (expected, request) in requests {
        let (status, said) = http.post("/v1/check", &request).expect("an answer");
        assert_eq!(status, expected, "{said}");
    }
    let mut count = |outcome: &str| {
        let name = format!("tidegate_decisions_total{{policy=\"web\",outcome=\"{outcome}\"}}");
        http.metric(&name).expect("it is there")
    };
    assert_eq!((count("invalid"), count("failed")), (3.0, 0.0));
}

/// The log said that another server had done it.
#[test]
fn a_store_that_was_emptied_no_longer_has_what_was_set_and_says_so() {
    if let Some(store) = Beyond::redis() {
        let folder = folder(POLICY);
        let arguments = ["--store", &store.url, "--applied", "store"];
        let server = Server::start(folder.path(), &arguments);
        let mut http = Http::connect(server.http).expect("it listens");
        let limits =
            json!({"policy": "web", "key": "k", "limits": {"rpm": {"calls": 5, "per": "1h"}}});
        let (status, said) = http.put("/v1/overrides", &limits).expect("an answer");
        assert_eq!(status, 200, "{said}");
        let limit = |http: &mut Http| {
            let peek = json!({"policy": "web", "key": "k", "cost": 1});
            let (_, said) = http.post("/v1/peek", &peek).expect("an answer");
            said["limits"]["rpm"]["limit"].as_u64()
        };
        // A busy store tells it after its answer.
        until("the override holds", || limit(&mut http) == Some(5));
        let policies = json!({"policy": {"web": {"limits": {"rpm": {"calls": 7, "per": "1h"}}}}});
        let (status, said) = http.put("/v1/policies", &policies).expect("an answer");
        assert_eq!(status, 200, "{said}");
        let place = store.url.trim_start_matches("redis://");
        let mut redis = TcpStream::connect(place).expect("a server");
        redis.write_all(b"FLUSHALL\r\n").expect("sent");
        let mut answer = [0; 5];
        redis.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"+OK\r\n");
        until("it is told of the policies", || {
            server.logged("the store no longer has the policies that were applied") > 0
        });
        until("it is told of the overrides", || {
            server.logged("the store no longer has the overrides that were set") > 0
        });
        assert_eq!(server.logged("applied at another server"), 0);
        until("the file's limit holds", || limit(&mut http) == Some(10));
    }
}

/// Two servers on one store: what is changed of an entity at one holds at the other, without a
/// restart.
#[test]
fn a_change_of_an_entity_at_one_server_holds_at_another() {
    for store in [Beyond::redis(), Beyond::postgres(), Beyond::mariadb()] {
        store
            .iter()
            .for_each(a_change_of_an_entity_holds_at_another_server);
    }
}

fn a_change_of_an_entity_holds_at_another_server(store: &Beyond) {
    let folder = folder(OF_ENTITIES);
    let url = patient(store);
    let arguments = ["--store", &*url];
    let (one, other) = (
        Server::start(folder.path(), &arguments),
        Server::start(folder.path(), &arguments),
    );
    let mut one = Http::connect(one.http).expect("it listens");
    let mut other = Http::connect(other.http).expect("it listens");
    for entity in [
        json!({"id": "acme"}),
        json!({"id": "search", "parent": "acme"}),
        json!({"id": "ads", "parent": "acme"}),
        json!({"id": "alice", "parent": "search"}),
    ] {
        let (status, said) = one.post("/v1/entities", &entity).expect("an answer");
        assert_eq!(status, 200, "{said}");
    }
    let alice = json!({"policy": "web", "entity": "alice"});
    let mut left = |limit: &str| {
        let (status, said) = other.post("/v1/peek", &alice).expect("an answer");
        assert_eq!(status, 200, "{said}");
        said["limits"][limit]["remaining"].as_u64()
    };
    // It knows her from here on.
    assert_eq!(left("team_rpm"), Some(5));
    let check = json!({"policy": "web", "entity": "search"});
    let (status, said) = one.post("/v1/check", &check).expect("an answer");
    assert_eq!(status, 200, "{said}");
    assert_eq!(left("team_rpm"), Some(4));
    let (status, said) = one.delete("/v1/entities/alice").expect("an answer");
    assert_eq!(status, 204, "{said}");
    until("the other server is told that she is gone", || {
        let (status, _) = other.post("/v1/peek", &alice).expect("an answer");
        status == 404
    });
    let anew = json!({"id": "alice", "parent": "ads"});
    let (status, said) = one.post("/v1/entities", &anew).expect("an answer");
    assert_eq!(status, 200, "{said}");
    let (status, said) = other.post("/v1/peek", &alice).expect("an answer");
    assert_eq!(
        (status, &said["limits"]["team_rpm"]["remaining"]),
        (200, &json!(5))
    );
}
