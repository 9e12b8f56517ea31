//! Three servers, and a program with their service built in, on one store: what is stored of limits at one
//! holds at all of them, without a restart. Each waits with patience; how long it took is printed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_conformance::{Beyond, skip};
use tidegate_policy::parse;
use tidegate_service::{OverrideTarget, Scope, Service};
use tidegate_url::UrlError;

use crate::http::Http;
use crate::server::{Server, folder, patient, until};

const SERVERS: usize = 3;

const POLICY: &str = "[policy.web]\nkey = 'org/user'\npartial_keys = true\n\
    [policy.web.limits]\nrpm = { calls = 10, per = '400d', level = 'user' }\n\
    org = { calls = 90, per = '400d', level = 'org' }\n";

/// Entities as a request names them, and the keys that they are.
const ENTITIES: [(&str, &str); 2] = [("alice", "/acme/alice"), ("bob", "/acme/bob")];

/// The limits that are asked for.
const LIMITS: [&str; 3] = ["rpm", "org", "gpu"];

/// How much of each limit each entity has; nothing where there is no such limit.
type Seen = [[Option<u64>; LIMITS.len()]; ENTITIES.len()];

const PLAIN: Seen = [[Some(10), Some(90), None]; 2];

#[test]
fn three_servers_and_a_program_agree_on_stored_limits_on_redis() {
    Beyond::redis()
        .iter()
        .for_each(|store| all_agree(store, "told: within 1 s"));
}

#[test]
fn three_servers_and_a_program_agree_on_stored_limits_on_postgres() {
    Beyond::postgres()
        .iter()
        .for_each(|store| all_agree(store, "told: within 1 s"));
}

#[test]
fn three_servers_and_a_program_agree_on_stored_limits_on_mariadb() {
    Beyond::mariadb()
        .iter()
        .for_each(|store| all_agree(store, "looked at: within 5 s"));
}

#[test]
fn three_servers_and_a_program_agree_on_stored_limits_on_dynamodb() {
    // The command has this store where it is built with the feature, as with the whole workspace.
    if let Err(error @ UrlError::NotBuilt { .. }) = tidegate_url::check("dynamodb://t") {
        skip(&error.to_string(), "TIDEGATE_REQUIRE_DYNAMODB");
        return;
    }
    Beyond::dynamodb()
        .iter()
        .for_each(|store| all_agree(store, "looked at: within 5 s"));
}

/// All who are on one store.
struct All {
    _servers: Vec<Server>,
    clients: Vec<Http>,
    program: Service,
}

impl All {
    fn on(store: &Beyond) -> Self {
        let folder = folder(POLICY);
        let url = patient(store);
        let arguments = ["--store", &*url];
        let start = |_| Server::start(folder.path(), &arguments);
        let servers: Vec<_> = (0..SERVERS).map(start).collect();
        let clients = servers.iter().map(|server| Http::connect(server.http));
        let file = parse("t", POLICY).expect("policies");
        let opened = tidegate_url::open(&url).expect("a store");
        let program = Service::builder().store(opened.store).build(&file);
        Self {
            clients: clients.map(|client| client.expect("it listens")).collect(),
            _servers: servers,
            program: program.expect("the store has room"),
        }
    }

    /// What each of them says.
    fn seen(&mut self) -> Vec<Seen> {
        let mut seen: Vec<_> = self.clients.iter_mut().map(at_server).collect();
        seen.push(at_program(&self.program));
        seen
    }

    /// Waits until all see this; answers how long it took.
    fn await_all(&mut self, what: &str, wanted: Seen) -> Duration {
        let begun = Instant::now();
        until(what, || self.seen().iter().all(|seen| *seen == wanted));
        begun.elapsed()
    }

    /// Makes a change at one of the servers.
    fn put(&mut self, server: usize, body: &Value) {
        let put = self.clients[server].put("/v1/overrides", body);
        let (status, said) = put.expect("an answer");
        assert_eq!(status, 200, "{said}");
    }
}

fn at_server(client: &mut Http) -> Seen {
    ENTITIES.map(|(entity, _)| {
        let peek = json!({"policy": "web", "entity": entity});
        let (status, said) = client.post("/v1/peek", &peek).expect("an answer");
        assert_eq!(status, 200, "{said}");
        LIMITS.map(|limit| said["limits"][limit]["limit"].as_u64())
    })
}

fn at_program(program: &Service) -> Seen {
    let caller = program.enter(None).expect("it is open");
    let active = program.policy(&caller, Scope::Observe, "web");
    let active = active.expect("it is there");
    ENTITIES.map(|(_, key)| {
        let peek = active.peek(key, ()).wait().expect("an answer");
        LIMITS.map(|limit| Some(peek.standing(limit)?.limit))
    })
}

/// A place of each level, as it is set and as it is removed, and the limit that is set there.
fn levels() -> [(&'static str, Value, &'static str); 5] {
    let rpm = |calls: u64| json!({"rpm": {"calls": calls, "per": "400d"}});
    [
        ("everything", json!({"limits": rpm(11)}), "/v1/overrides"),
        (
            "policy",
            json!({"policy": "web", "limits": rpm(12)}),
            "/v1/overrides?policy=web",
        ),
        (
            "key",
            json!({"key": "acme", "limits": {"org": {"calls": 13, "per": "400d"}}}),
            "/v1/overrides?key=acme",
        ),
        (
            "key_and_policy",
            json!({"policy": "web", "entity": "alice", "limits": rpm(14)}),
            "/v1/overrides?policy=web&entity=alice",
        ),
        (
            "added",
            json!({"policy": "web", "entity": "alice",
                   "limits": {"gpu": {"calls": 15, "per": "400d", "added": true}}}),
            "/v1/overrides?policy=web&entity=alice",
        ),
    ]
}

/// What all see when `level` has set this many calls.
fn wanted(level: &str, calls: u64) -> Seen {
    let [rpm, org, gpu] = [
        [Some(calls), Some(90), None],
        [Some(10), Some(calls), None],
        [Some(10), Some(90), Some(calls)],
    ];
    match level {
        "everything" | "policy" => [rpm; 2],
        "key" => [org; 2],
        "added" => [gpu, PLAIN[1]],
        _ => [rpm, PLAIN[1]],
    }
}

fn all_agree(store: &Beyond, promised: &str) {
    let mut all = All::on(store);
    for entity in [
        json!({"id": "acme"}),
        json!({"id": "alice", "parent": "acme"}),
        json!({"id": "bob", "parent": "acme"}),
    ] {
        let (status, said) = all.clients[0]
            .post("/v1/entities", &entity)
            .expect("an answer");
        assert_eq!(status, 200, "{said}");
    }
    all.await_all("the entities are known", PLAIN);
    let mut longest = Duration::ZERO;
    for (nth, (level, mut body, removed)) in levels().into_iter().enumerate() {
        let name = match level {
            "added" => "gpu",
            "key" => "org",
            _ => "rpm",
        };
        let first = body["limits"][name]["calls"].as_u64().expect("a number");
        all.put(nth % SERVERS, &body);
        longest = longest.max(all.await_all("it is set", wanted(level, first)));
        body["limits"][name]["calls"] = json!(first + 100);
        all.put((nth + 1) % SERVERS, &body);
        longest = longest.max(all.await_all("it is changed", wanted(level, first + 100)));
        match nth % 2 {
            0 => {
                let delete = all.clients[(nth + 2) % SERVERS].delete(removed);
                let (status, said) = delete.expect("an answer");
                assert_eq!(status, 204, "{said}");
            }
            _ => remove_at_program(&all.program, level),
        }
        longest = longest.max(all.await_all("it is removed", PLAIN));
    }
    println!("all of them agreed after {longest:?} at most ({promised})");
}

/// The levels that the program takes away.
fn remove_at_program(program: &Service, level: &str) {
    let caller = program.enter(None).expect("it is open");
    let web = OverrideTarget::everything().of_policy("web");
    let target = match level {
        "policy" => web,
        _ => web.of_key("/acme/alice"),
    };
    let removed = program.remove_override(&caller, &target).wait();
    assert!(removed.expect("the store answers"), "{level}");
}
