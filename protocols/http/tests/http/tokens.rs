//! Who may do what.

use serde_json::{Value, json};
use tidegate_service::Scope;

use crate::support::House;

const LEASE: &str = "0123456789abcdef0123456789abcdef";

/// Each path with a body that is in order.
fn posts() -> Vec<(&'static str, Scope, Value)> {
    let request = json!({"policy": "web", "key": "k"});
    let end = json!({"policy": "web", "key": "k", "lease": LEASE});
    let renew = json!({"policy": "web", "key": "k", "lease": LEASE, "ttl_ms": 1_000});
    let revoke = json!({"policy": "web", "key": "k", "handle": "0123456789abcdef"});
    let debit = json!({"policy": "web", "key": "k", "amounts": {"rpm": 1}});
    vec![
        ("/v1/check", Scope::Decide, request.clone()),
        ("/v1/acquire", Scope::Decide, request.clone()),
        ("/v1/settle", Scope::Decide, end.clone()),
        ("/v1/release", Scope::Decide, end.clone()),
        ("/v1/cancel", Scope::Decide, end),
        ("/v1/renew", Scope::Decide, renew),
        ("/v1/debit", Scope::Decide, debit),
        ("/v1/peek", Scope::Observe, request.clone()),
        ("/v1/forecast", Scope::Observe, request.clone()),
        ("/v1/reset", Scope::Administer, request),
        ("/v1/leases/revoke", Scope::Administer, revoke),
    ]
}

const GETS: [(&str, Scope); 7] = [
    ("/v1/auth?policy=web&key=k", Scope::Decide),
    ("/v1/policies/web", Scope::Observe),
    ("/v1/keys?policy=web", Scope::Observe),
    ("/v1/leases?policy=web", Scope::Observe),
    ("/v1/usage?policy=web", Scope::Observe),
    ("/v1/denied?policy=web", Scope::Observe),
    ("/metrics", Scope::Observe),
];

/// A house with a token for each scope, and one for another policy.
fn locked() -> House {
    let house = House::new();
    let tokens = Scope::ALL.map(|scope| (scope.name(), [scope]));
    let mut known: Vec<(&str, &[Scope], &[&str])> = Vec::new();
    for (name, scopes) in &tokens {
        known.push((name, scopes, &[]));
    }
    known.push(("stranger", &Scope::ALL, &["chat", "jo*"]));
    house.lock(&known);
    house
}

#[tokio::test]
async fn without_a_token_nobody_is_let_in() {
    let house = locked();
    for (path, _, body) in posts() {
        let reply = house.post(path, body.clone()).await;
        reply.problem(401, "unauthenticated");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        house
            .post_as("guess", path, body)
            .await
            .problem(401, "unauthenticated");
    }
    for path in ["/v1/check-many", "/v1/reset"] {
        // Before the body is looked at.
        house
            .post_text(path, "{")
            .await
            .problem(401, "unauthenticated");
    }
    for (path, _) in GETS {
        house.get(path).await.problem(401, "unauthenticated");
    }
    house
        .get("/v1/policies")
        .await
        .problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_token_is_good_for_its_scope_alone() {
    let house = locked();
    for (path, needed, body) in posts() {
        for scope in Scope::ALL {
            let reply = house.post_as(scope.name(), path, body.clone()).await;
            match scope == needed {
                true => assert!(![401, 403].contains(&reply.status), "{path} {scope}"),
                false => _ = reply.problem(403, "forbidden"),
            }
        }
    }
    for (path, needed) in GETS {
        for scope in Scope::ALL {
            let reply = house.get_as(scope.name(), path).await;
            assert_eq!(reply.status == 403, scope != needed, "{path} {scope}");
        }
    }
}

#[tokio::test]
async fn a_token_is_good_for_its_policies_alone() {
    let house = locked();
    for (path, _, body) in posts() {
        house
            .post_as("stranger", path, body)
            .await
            .problem(403, "forbidden");
    }
    for (path, _) in GETS {
        house
            .get_as("stranger", path)
            .await
            .problem(403, "forbidden");
    }
    let reply = house.get_as("stranger", "/v1/policies").await;
    let names: Vec<_> = reply.json()["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["name"].clone())
        .collect();
    assert_eq!(names, ["chat", "jobs"]);
    let request = json!({"policy": "jobs", "key": "k"});
    assert_eq!(
        house
            .post_as("stranger", "/v1/acquire", request)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn several_checks_are_forbidden_each_by_itself() {
    let house = locked();
    let checks = json!({"checks": [
        {"policy": "web", "key": "k"},
        {"policy": "chat", "key": "acme/x", "cost": 1},
    ]});
    let answers = house
        .post_as("stranger", "/v1/check-many", checks)
        .await
        .json()["answers"]
        .clone();
    assert_eq!(answers[0]["problem"]["code"], "forbidden");
    assert_eq!(answers[1]["admitted"], true);
}

#[tokio::test]
async fn health_and_the_document_are_open() {
    let house = locked();
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(house.get(path).await.status, 200);
    }
}
