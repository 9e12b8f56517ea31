//! What was changed, and by whom: one event for each change.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tidegate_service::Scope;

use crate::support::{House, Reply};

async fn ask(house: &House, method: &str, path: &str, token: &str, body: Value) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("authorization", format!("Bearer {token}"));
    let body = match body {
        Value::Null => Body::empty(),
        body => {
            request = request.header("content-type", "application/json");
            Body::from(body.to_string())
        }
    };
    house.send(request.body(body).unwrap()).await
}

async fn events(house: &House, token: &str, query: &str) -> Vec<Value> {
    let path = format!("/v1/audit{query}");
    let reply = ask(house, "GET", &path, token, Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["events"].as_array().unwrap().clone()
}

fn rpm(calls: u64) -> Value {
    json!({"rpm": {"calls": calls, "per": "1m"}})
}

/// A house in which `ops` has set an override, set it again, removed it, forgotten a key and
/// ended a lease; what was refused, or changed nothing, is no event.
async fn busy() -> House {
    let house = House::new();
    house.lock(&[
        ("ops", &Scope::ALL, &[]),
        ("web", &[Scope::Observe], &["web"]),
        ("decider", &[Scope::Decide], &[]),
    ]);
    let set = |calls| json!({"policy": "web", "key": "acme", "limits": rpm(calls), "reason": "r"});
    let put = "/v1/overrides";
    assert_eq!(ask(&house, "PUT", put, "ops", set(5)).await.status, 200);
    house.time.advance(Duration::from_secs(60));
    assert_eq!(ask(&house, "PUT", put, "ops", set(6)).await.status, 200);
    let nonsense = json!({"policy": "web", "limits": {}});
    assert_eq!(ask(&house, "PUT", put, "ops", nonsense).await.status, 400);
    assert_eq!(ask(&house, "PUT", put, "web", set(7)).await.status, 403);
    house.time.advance(Duration::from_secs(60));
    let place = "/v1/overrides?policy=web&key=acme&reason=over";
    for status in [204, 404] {
        let gone = ask(&house, "DELETE", place, "ops", Value::Null).await;
        assert_eq!(gone.status, status);
    }
    let key = json!({"policy": "web", "key": "acme"});
    assert_eq!(
        ask(&house, "POST", "/v1/reset", "ops", key).await.status,
        204
    );
    let job = json!({"policy": "jobs", "key": "j"});
    let lease = ask(&house, "POST", "/v1/acquire", "ops", job.clone()).await;
    assert_eq!(lease.status, 200);
    let held = ask(&house, "GET", "/v1/leases?policy=jobs", "ops", Value::Null).await;
    let handle = held.json()["leases"][0]["handle"].clone();
    let mut revoke = job;
    revoke["handle"] = handle;
    let path = "/v1/leases/revoke";
    for status in [200, 404] {
        let ended = ask(&house, "POST", path, "ops", revoke.clone()).await;
        assert_eq!(ended.status, status);
    }
    house
}

#[tokio::test]
async fn every_change_leaves_one_event_with_before_and_after_who_and_from_where() {
    let house = busy().await;
    let told = events(&house, "ops", "").await;
    let actions: Vec<_> = told
        .iter()
        .map(|one| one["action"].as_str().unwrap())
        .collect();
    let expected = [
        "set_override",
        "set_override",
        "remove_override",
        "reset",
        "revoke",
    ];
    assert_eq!(actions, expected);
    for one in &told {
        assert_eq!(
            (&one["by"], &one["protocol"]),
            (&json!("ops"), &json!("http"))
        );
        // Asked without a socket.
        assert_eq!(one.get("peer"), None);
    }
    let versions: Vec<_> = told[..3]
        .iter()
        .map(|one| one["version"].as_u64().unwrap())
        .collect();
    assert!(
        versions.is_sorted_by(|one, next| one < next),
        "{versions:?}"
    );
    let limits = |one: &Value, when: &str| one[when]["limits"].clone();
    assert_eq!(
        (&told[0]["before"], limits(&told[0], "after")),
        (&Value::Null, rpm(5))
    );
    assert_eq!(
        (limits(&told[1], "before"), limits(&told[1], "after")),
        (rpm(5), rpm(6))
    );
    assert_eq!(
        (limits(&told[2], "before"), &told[2]["after"]),
        (rpm(6), &Value::Null)
    );
    let reasons: Vec<_> = told[..3].iter().map(|one| one["reason"].clone()).collect();
    assert_eq!(reasons, ["r", "r", "over"]);
    assert_eq!(told[0]["at"], "2026-01-01T12:00:00Z");
    assert_eq!(
        (&told[3]["policy"], &told[3]["key"]),
        (&json!("web"), &json!("acme"))
    );
    assert_eq!(told[4]["details"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn events_are_found_by_policy_by_key_by_time_and_in_pages() {
    let house = busy().await;
    let all = events(&house, "ops", "").await;
    let count = async |query: &str| events(&house, "ops", query).await.len();
    assert_eq!(count("?policy=web").await, 4);
    assert_eq!(count("?key=acme").await, 4);
    assert_eq!(count("?policy=web&key=acme").await, 4);
    assert_eq!(count("?policy=jobs&key=acme").await, 0);
    assert_eq!(count("?key_base64=ag==").await, 1);
    assert_eq!(count("?since=2026-01-01T12:01:00Z").await, 4);
    let within = "?since=2026-01-01T12:01:00Z&until=2026-01-01T12:02:00Z";
    assert_eq!(events(&house, "ops", within).await, all[1..2]);
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/audit?limit=2{cursor}");
        let page = ask(&house, "GET", &path, "ops", Value::Null).await.json();
        found.extend(page["events"].as_array().unwrap().clone());
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, all);
    let wrong = [
        "?limit=0",
        "?limit=1001",
        "?cursor=%21",
        "?cursor=AAAA",
        "?since=soon",
        "?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z",
        "?policy=",
        "?key=",
        "?key=a&key_base64=AA==",
        "?more=1",
    ];
    for query in wrong {
        let path = format!("/v1/audit{query}");
        let reply = ask(&house, "GET", &path, "ops", Value::Null).await;
        reply.problem(400, "invalid");
    }
}

#[tokio::test]
async fn a_token_sees_the_events_of_its_own_policies_and_none_without_the_scope() {
    let house = busy().await;
    assert_eq!(events(&house, "web", "").await.len(), 4);
    let jobs = ask(&house, "GET", "/v1/audit?policy=jobs", "web", Value::Null).await;
    jobs.problem(403, "forbidden");
    let all = ask(&house, "GET", "/v1/audit", "decider", Value::Null).await;
    all.problem(403, "forbidden");
}

#[tokio::test]
async fn events_end_with_their_time() {
    let house = busy().await;
    house.time.advance(Duration::from_secs(89 * 86_400));
    assert_eq!(events(&house, "ops", "").await.len(), 5);
    house.time.advance(Duration::from_secs(2 * 86_400));
    assert_eq!(events(&house, "ops", "").await, Vec::<Value>::new());
}
