//! Every operation of the document, without a token, with a malformed one, with
//! one of another scope and one of another policy: refused, and nothing changed.
//!
//! An operation that is added to the document must be added to [`OPERATIONS`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;
use tidegate::Limit;
use tidegate_http::{Application, Server, Settings};
use tidegate_memory::MemoryStore;
use tidegate_service::{
    Action, Answer, AuditEvent, AuditListing, Call, Credential, LeaseHandle, OverrideTarget, Scope,
};

use crate::support::{House, Reply};

/// Whom an operation lets in.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Access {
    /// Everyone.
    Anyone,
    /// Whoever has this scope for the policy.
    Policy(Scope),
    /// Whoever has this scope for all policies.
    Whole(Scope),
    /// Whoever has a token; each part of the answer is for whom it is for.
    Parts(Scope),
}

use Access::{Anyone, Parts, Policy, Whole};
use Scope::{Administer, Decide, Observe};

/// The operation, whom it lets in, and a request about the policy `web`. LEASE
/// stands for a lease of it.
const OPERATIONS: [(&str, Access, &str, &str); 45] = [
    ("post /v1/check", Policy(Decide), "/v1/check", ASK),
    (
        "post /v1/check-many",
        Parts(Decide),
        "/v1/check-many",
        "{\"checks\":[{\"policy\":\"web\",\"key\":\"k\"}]}",
    ),
    ("post /v1/acquire", Policy(Decide), "/v1/acquire", ASK),
    ("post /v1/grant", Policy(Decide), "/v1/grant", ASK),
    ("post /v1/return", Policy(Decide), "/v1/return", END),
    ("post /v1/settle", Policy(Decide), "/v1/settle", END),
    ("post /v1/release", Policy(Decide), "/v1/release", END),
    ("post /v1/cancel", Policy(Decide), "/v1/cancel", END),
    (
        "post /v1/renew",
        Policy(Decide),
        "/v1/renew",
        "{\"policy\":\"web\",\"key\":\"k\",\"lease\":\"LEASE\",\"ttl_ms\":3600000}",
    ),
    (
        "post /v1/adjust",
        Policy(Decide),
        "/v1/adjust",
        "{\"policy\":\"web\",\"key\":\"k\",\"lease\":\"LEASE\",\"cost\":1}",
    ),
    (
        "post /v1/debit",
        Policy(Decide),
        "/v1/debit",
        "{\"policy\":\"web\",\"key\":\"k\",\"amounts\":{\"rpm\":1}}",
    ),
    ("post /v1/peek", Policy(Observe), "/v1/peek", ASK),
    ("post /v1/forecast", Policy(Observe), "/v1/forecast", ASK),
    ("post /v1/reset", Policy(Administer), "/v1/reset", ASK),
    (
        "get /v1/auth",
        Policy(Decide),
        "/v1/auth?policy=web&key=k",
        "",
    ),
    ("get /v1/overrides", Parts(Observe), "/v1/overrides", ""),
    (
        "put /v1/overrides",
        Policy(Administer),
        "/v1/overrides",
        "{\"policy\":\"web\",\"key\":\"k\",\"limits\":{\"rpm\":{\"calls\":9,\"per\":\"1m\"}}}",
    ),
    (
        "delete /v1/overrides",
        Policy(Administer),
        "/v1/overrides?policy=web",
        "",
    ),
    ("get /v1/entities", Whole(Observe), "/v1/entities", ""),
    (
        "post /v1/entities",
        Whole(Administer),
        "/v1/entities",
        "{\"id\":\"acme\"}",
    ),
    (
        "get /v1/entities/{id}",
        Whole(Observe),
        "/v1/entities/acme",
        "",
    ),
    (
        "patch /v1/entities/{id}",
        Whole(Administer),
        "/v1/entities/acme",
        "{\"name\":\"Acme\"}",
    ),
    (
        "delete /v1/entities/{id}",
        Whole(Administer),
        "/v1/entities/acme",
        "",
    ),
    (
        "get /v1/entities/{id}/children",
        Whole(Observe),
        "/v1/entities/acme/children",
        "",
    ),
    ("get /v1/namespaces", Whole(Observe), "/v1/namespaces", ""),
    (
        "post /v1/namespaces",
        Whole(Administer),
        "/v1/namespaces",
        "{\"name\":\"acme\"}",
    ),
    (
        "get /v1/namespaces/{name}",
        Whole(Observe),
        "/v1/namespaces/acme",
        "",
    ),
    (
        "delete /v1/namespaces/{name}",
        Whole(Administer),
        "/v1/namespaces/acme",
        "",
    ),
    (
        "post /v1/namespaces/{name}/restore",
        Whole(Administer),
        "/v1/namespaces/acme/restore",
        "",
    ),
    (
        "post /v1/namespaces/{name}/purge",
        Whole(Administer),
        "/v1/namespaces/acme/purge",
        "",
    ),
    ("get /v1/policies", Parts(Observe), "/v1/policies", ""),
    (
        "get /v1/policies/{name}",
        Policy(Observe),
        "/v1/policies/web",
        "",
    ),
    (
        "put /v1/policies",
        Whole(Administer),
        "/v1/policies",
        "{\"policy\":{\"web\":{\"limits\":{\"rpm\":{\"calls\":7,\"per\":\"1m\"}}}}}",
    ),
    ("get /v1/keys", Policy(Observe), "/v1/keys?policy=web", ""),
    (
        "get /v1/capacity",
        Policy(Observe),
        "/v1/capacity?policy=web",
        "",
    ),
    ("get /v1/fleet", Policy(Observe), "/v1/fleet?policy=web", ""),
    (
        "get /v1/leases",
        Policy(Observe),
        "/v1/leases?policy=web",
        "",
    ),
    (
        "post /v1/leases/revoke",
        Policy(Administer),
        "/v1/leases/revoke",
        "{\"policy\":\"web\",\"key\":\"k\",\"handle\":\"0123456789abcdef\"}",
    ),
    ("get /v1/usage", Policy(Observe), "/v1/usage?policy=web", ""),
    ("get /v1/denied", Parts(Observe), "/v1/denied", ""),
    ("get /v1/audit", Parts(Observe), "/v1/audit", ""),
    ("get /openapi.json", Anyone, "/openapi.json", ""),
    ("get /healthz", Anyone, "/healthz", ""),
    ("get /readyz", Anyone, "/readyz", ""),
    ("get /metrics", Whole(Observe), "/metrics", ""),
];
/// What each operation that administers is told as, and whether there was something before and is
/// something after it that the event shows.
const EVENTS: [(&str, Action, [bool; 2]); 12] = [
    ("post /v1/reset", Action::Reset, [false, false]),
    ("put /v1/overrides", Action::SetOverride, [false, true]),
    (
        "delete /v1/overrides",
        Action::RemoveOverride,
        [true, false],
    ),
    ("post /v1/entities", Action::CreateEntity, [false, true]),
    (
        "patch /v1/entities/{id}",
        Action::ChangeEntity,
        [true, true],
    ),
    (
        "delete /v1/entities/{id}",
        Action::DeleteEntity,
        [true, false],
    ),
    (
        "post /v1/namespaces",
        Action::CreateNamespace,
        [false, false],
    ),
    (
        "delete /v1/namespaces/{name}",
        Action::DeleteNamespace,
        [false, false],
    ),
    (
        "post /v1/namespaces/{name}/restore",
        Action::RestoreNamespace,
        [false, false],
    ),
    (
        "post /v1/namespaces/{name}/purge",
        Action::PurgeNamespace,
        [false, false],
    ),
    ("put /v1/policies", Action::ApplyPolicies, [false, false]),
    ("post /v1/leases/revoke", Action::Revoke, [false, false]),
];

const ASK: &str = "{\"policy\":\"web\",\"key\":\"k\"}";
const END: &str = "{\"policy\":\"web\",\"key\":\"k\",\"lease\":\"LEASE\"}";

/// A house with a token for each scope, one for another policy, and one for all.
fn locked() -> House {
    let house = House::new();
    lock(&house);
    house
}

fn lock(house: &House) {
    // One to be seen and removed; it says what the policy says.
    let limit = Limit::calls("rpm", 3, Duration::from_secs(60));
    let web = OverrideTarget::everything().of_policy("web");
    let all = house.service.enter(None).unwrap();
    house
        .service
        .set_override(&all, &web, &[limit])
        .wait()
        .unwrap();
    let scopes = Scope::ALL.map(|scope| [scope]);
    let mut known: Vec<(&str, &[Scope], &[&str])> = Vec::new();
    for scope in &scopes {
        known.push((scope[0].name(), scope, &[]));
    }
    known.push(("stranger", &Scope::ALL, &["jobs", "ch*"]));
    known.push(("all", &Scope::ALL, &[]));
    house.lock(&known);
}

impl House {
    /// Sends one of [`OPERATIONS`] with this `Authorization`, if any.
    async fn operate(&self, operation: &str, path: &str, body: &str, says: Option<&[u8]>) -> Reply {
        let method = operation.split(' ').next().unwrap().to_uppercase();
        let mut request = Request::builder().method(method.as_str()).uri(path);
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        if let Some(says) = says {
            request = request.header("authorization", says);
        }
        self.send(request.body(Body::from(body.to_owned())).unwrap())
            .await
    }

    /// Takes a lease on `web`; its id.
    async fn lease(&self) -> String {
        let path = "/v1/acquire";
        let reply = self.operate("post", path, ASK, Some(b"Bearer all")).await;
        reply.json()["lease"]["id"].as_str().unwrap().to_owned()
    }

    /// All that there is to see of `web`, the instants of its limits included.
    async fn seen(&self) -> Value {
        let reply = self
            .operate("post", "/v1/peek", ASK, Some(b"Bearer all"))
            .await;
        reply.json()
    }
}

#[tokio::test]
async fn every_operation_of_the_document_is_in_the_matrix() {
    let document = House::new().get("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    let said: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| format!("{method} {path}"))
        })
        .collect();
    let tested: BTreeSet<String> = OPERATIONS.map(|(name, ..)| name.to_owned()).into();
    assert_eq!(said, tested);
}

#[tokio::test]
async fn without_a_token_or_with_a_malformed_one_every_operation_is_refused() {
    let house = locked();
    let lease = house.lease().await;
    let before = house.seen().await;
    let malformed: [Option<&[u8]>; 9] = [
        None,
        Some(b""),
        Some(b"Bearer"),
        Some(b"Bearer "),
        Some(b"Bearer guess"),
        Some(b"Bearer all all"),
        Some(b"Basic YWxsOmFsbA=="),
        Some(b"all"),
        Some(b"Bearer \xff\xfe"),
    ];
    for (name, access, path, body) in OPERATIONS {
        for says in malformed {
            let body = body.replace("LEASE", &lease);
            let reply = house.operate(name, path, &body, says).await;
            if access == Anyone {
                assert_eq!(reply.status, 200, "{name}");
                continue;
            }
            reply.problem(401, "unauthenticated");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{name}");
        }
    }
    untouched(&house, &before, &lease).await;
}

#[tokio::test]
async fn a_token_of_another_scope_is_refused_at_every_operation() {
    for (name, access, path, body) in OPERATIONS {
        let (Policy(needed) | Whole(needed) | Parts(needed)) = access else {
            continue;
        };
        let house = locked();
        let lease = house.lease().await;
        let before = house.seen().await;
        let body = body.replace("LEASE", &lease);
        for scope in Scope::ALL.into_iter().filter(|scope| *scope != needed) {
            let says = format!("Bearer {scope}");
            let reply = house
                .operate(name, path, &body, Some(says.as_bytes()))
                .await;
            // Who may observe nothing is told so, and not that there is nothing.
            match access {
                Parts(Observe) => _ = reply.problem(403, "forbidden"),
                _ => refused(name, access, &reply),
            }
        }
        untouched(&house, &before, &lease).await;
        // And the scope that is needed is enough.
        let lease = house.lease().await;
        let body = body.replace(&before_lease(&body), &lease);
        let says = format!("Bearer {needed}");
        let reply = house
            .operate(name, path, &body, Some(says.as_bytes()))
            .await;
        assert!(
            ![401, 403].contains(&reply.status),
            "{name}: {}",
            reply.text()
        );
        assert!(!reply.text().contains("forbidden"), "{name}");
    }
}

/// All events that the store keeps.
async fn events(house: &House) -> Vec<AuditEvent> {
    let all = house.service.enter(Some("all")).unwrap();
    let listing = AuditListing {
        most: Some(1_000),
        ..AuditListing::default()
    };
    match house.service.call(&all, Call::Audit(listing)).await {
        Ok(Answer::Audit(page)) => page.items,
        other => panic!("{other:?}"),
    }
}

/// A house with a store that keeps namespaces, and what `name` needs to be there.
async fn furnished(name: &str) -> House {
    let mut house = House::on(MemoryStore::default());
    let service = house.service.clone();
    let apply = move |application: Application| {
        let changes = service.exchange(&application.by, &application.policies);
        changes.map_err(|error| error.to_string())
    };
    let settings = Settings {
        apply: Some(Arc::new(apply)),
        ..Settings::default()
    };
    house.server = Server::new(house.service.clone(), settings);
    lock(&house);
    let says: Option<&[u8]> = Some(b"Bearer all");
    let make = async |operation, path, body| {
        let reply = house.operate(operation, path, body, says).await;
        assert!(reply.status < 300, "{path}: {}", reply.text());
    };
    if name.contains("entities/{id}") {
        make("post", "/v1/entities", "{\"id\":\"acme\"}").await;
    }
    if name.contains("{name}") && name.contains("namespaces") {
        make("post", "/v1/namespaces", "{\"name\":\"acme\"}").await;
    }
    if name.contains("restore") || name.contains("purge") {
        make("delete", "/v1/namespaces/acme", "").await;
        // It may be purged from then on.
        house.time.advance(Duration::from_secs(10));
    }
    house
}

/// An operation that is added, and administers, has to be named in [`EVENTS`].
#[tokio::test]
async fn each_operation_that_administers_leaves_exactly_one_event_and_no_other_leaves_any() {
    let administers = |access| matches!(access, Policy(Administer) | Whole(Administer));
    for (name, access, path, body) in OPERATIONS {
        let house = furnished(name).await;
        let lease = house.lease().await;
        let handle = LeaseHandle::of(lease.parse().unwrap()).to_string();
        let body = body.replace("LEASE", &lease);
        let body = body.replace("0123456789abcdef", &handle);
        let before = events(&house).await;
        let reply = house.operate(name, path, &body, Some(b"Bearer all")).await;
        let mut events = events(&house).await;
        events.retain(|event| !before.contains(event));
        if !administers(access) {
            assert_eq!(events, [], "{name}");
            continue;
        }
        assert!(reply.status < 300, "{name}: {}", reply.text());
        let named = EVENTS.iter().find(|(known, ..)| *known == name);
        let Some((_, action, [was, is])) = named else {
            panic!("{name} is not among the operations that leave an event");
        };
        let [event] = &events[..] else {
            panic!("{name} leaves {events:?}");
        };
        assert_eq!(event.action, *action, "{name}");
        let shown = [event.before.is_some(), event.after.is_some()];
        assert_eq!(shown, [*was, *is], "{name}: {event:?}");
        let from = (event.by.as_deref(), event.protocol.as_deref());
        assert_eq!(from, (Some("all"), Some("http")), "{name}");
    }
}

#[tokio::test]
async fn a_token_of_another_policy_is_refused_at_every_operation() {
    let house = locked();
    let lease = house.lease().await;
    let before = house.seen().await;
    for (name, access, path, body) in OPERATIONS {
        let body = body.replace("LEASE", &lease);
        let reply = house
            .operate(name, path, &body, Some(b"Bearer stranger"))
            .await;
        match access {
            Anyone => assert_eq!(reply.status, 200, "{name}"),
            access => refused(name, access, &reply),
        }
    }
    untouched(&house, &before, &lease).await;
}

/// Whatever its scopes; and what is there is not said.
#[tokio::test]
async fn a_token_of_another_namespace_is_refused_at_every_operation() {
    let house = locked();
    let lease = house.lease().await;
    let before = house.seen().await;
    let token = |name: &str, namespace: Option<&str>| Credential {
        name: name.to_owned(),
        sha256: Credential::hash(name),
        scopes: Scope::ALL.to_vec(),
        policies: Vec::new(),
        namespace: namespace.map(str::to_owned),
    };
    let of_acme = token("of-acme", Some("acme"));
    let tokens = [token("all", Some("*")), token("of-none", None), of_acme];
    house.service.replace_credentials(tokens);
    for (name, access, path, body) in OPERATIONS {
        // A proxy's clients could send the header: it is not read there.
        if access == Anyone || name == "get /v1/auth" {
            continue;
        }
        let body = body.replace("LEASE", &lease);
        for (token, namespace) in [
            ("of-none", "acme"),
            ("of-acme", "default"),
            ("of-acme", "b"),
        ] {
            let method = name.split(' ').next().unwrap().to_uppercase();
            let mut request = Request::builder().method(method.as_str()).uri(path);
            if !body.is_empty() {
                request = request.header("content-type", "application/json");
            }
            let request = request
                .header("authorization", format!("Bearer {token}"))
                .header("tidegate-namespace", namespace);
            let request = request.body(Body::from(body.clone())).unwrap();
            house.send(request).await.problem(403, "forbidden");
        }
        // In its own it is as if there were no other: here there is no store for any.
        let says: Option<&[u8]> = Some(b"Bearer of-acme");
        let reply = house.operate(name, path, &body, says).await;
        assert!(reply.status >= 400, "{name}: {}", reply.text());
    }
    untouched(&house, &before, &lease).await;
}

/// That a reply refuses, or says nothing of `web` where each part is by itself.
fn refused(name: &str, access: Access, reply: &Reply) {
    match access {
        Parts(_) if name == "post /v1/check-many" => {
            assert_eq!(reply.json()["answers"][0]["problem"]["code"], "forbidden");
        }
        Parts(_) => {
            assert_eq!(reply.status, 200, "{name}");
            assert!(
                !reply.text().contains("\"web\""),
                "{name}: {}",
                reply.text()
            );
        }
        _ => _ = reply.problem(403, "forbidden"),
    }
}

/// That nothing was charged, and the lease still stands as it was.
async fn untouched(house: &House, before: &Value, lease: &str) {
    assert_eq!(&house.seen().await, before);
    let end = END.replace("LEASE", lease);
    let says: Option<&[u8]> = Some(b"Bearer all");
    let settled = house.operate("post", "/v1/settle", &end, says).await;
    assert_eq!(settled.status, 200, "{}", settled.text());
    let settled = settled.json();
    assert_eq!(
        (&settled["repeated"], &settled["expired"]),
        (&Value::Bool(false), &Value::Bool(false))
    );
}

/// The lease that a body names, or something that is in none.
fn before_lease(body: &str) -> String {
    let named = body.split("\"lease\":\"").nth(1).map(|rest| &rest[..32]);
    named.unwrap_or("no lease").to_owned()
}
