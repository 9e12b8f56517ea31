//! Units that a client spends without asking.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tidegate_http::Settings;
use tower::ServiceExt;

use crate::support::House;

const ID: &str = "00112233445566778899aabbccddeeff";

const POLICIES: &str = r#"
[policy.chat]
key = "org/user"
[policy.chat.limits]
rpm = { calls = 10, per = "1m", algorithm = "fixed_window" }
usd = { budget = 5, per = "1m", unit = "0.001" }
daily = { budget = 1_000, per = "day", zone = "UTC", level = "org" }

[policy.held]
tier = { mode = "leased", batch = 5, hold = "250ms" }
[policy.held.limits]
rpm = { calls = 10, per = "1m" }

[policy.slots.limits]
rpm = { calls = 10, per = "1m" }
running = { concurrency = 4 }

[policy.refunds.limits]
tpm = { rate = 10, per = "1m", on_failure = "refund" }

[policy.pool.member.a.limits]
rpm = { calls = 10, per = "1m" }
[policy.pool.member.b.limits]
rpm = { calls = 10, per = "1m" }
"#;

fn house() -> House {
    House::of(POLICIES, Settings::default())
}

fn of(policy: &str, more: Value) -> Value {
    let mut body = json!({"policy": policy, "key": "acme"});
    if policy == "chat" {
        body["key"] = "acme/alice".into();
    }
    let more = more.as_object().cloned().unwrap_or_default();
    body.as_object_mut().unwrap().extend(more);
    body
}

/// What is left of a limit.
async fn left(house: &House, policy: &str, limit: &str) -> Value {
    let peek = of(policy, json!({"cost": 0}));
    let body = house.post("/v1/peek", peek).await.json();
    body["limits"][limit]["remaining"].clone()
}

#[tokio::test]
async fn a_grant_is_of_what_is_there_and_returned_once() {
    let house = house();
    let wish = json!({
        "amounts": {"rpm": 20, "usd": "1.5", "daily": 400}, "lease": ID, "hold_ms": 2_000
    });
    let reply = house.post("/v1/grant", of("chat", wish.clone())).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let body = reply.json();
    assert_eq!(
        (&body["admitted"], &body["degraded"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(body["limits"]["rpm"]["remaining"], 0);
    assert_eq!(
        body["grant"],
        json!({
            "id": ID,
            "amounts": {"daily": 400, "rpm": 10, "usd": "1.500"},
            "calls": ["rpm"],
            "good_for_ms": 2_000,
            "good_until": "2026-01-01T12:00:02Z",
            "granted_at": "2026-01-01T12:00:00Z",
            "expires_at": "2026-01-01T12:00:02Z",
        })
    );
    // Nothing more is taken under the same id.
    let again = house.post(
        "/v1/grant",
        of(
            "chat",
            json!({"amounts": {"rpm": 0, "usd": 1}, "lease": ID}),
        ),
    );
    again.await.problem(400, "invalid");
    assert_eq!(left(&house, "chat", "usd").await, "3.500");
    // It is a lease like any other to who lists them.
    let leases = house.get("/v1/leases?policy=chat").await.json();
    assert_eq!(leases["leases"][0]["amounts"]["rpm"], 10);
    let back = of(
        "chat",
        json!({"lease": ID, "used": {"rpm": 4, "usd": "0.25"}}),
    );
    for repeated in [false, true] {
        let ended = house.post("/v1/return", back.clone()).await.json();
        assert_eq!(
            ended,
            json!({"expired": false, "repeated": repeated, "limits": {
                "daily": {"taken": 400, "used": 0},
                "rpm": {"taken": 10, "used": 4},
                "usd": {"taken": "1.500", "used": "0.250"},
            }})
        );
    }
    assert_eq!(left(&house, "chat", "rpm").await, 6);
    assert_eq!(left(&house, "chat", "usd").await, "4.750");
    assert_eq!(left(&house, "chat", "daily").await, 1_000);
}

#[tokio::test]
async fn a_grant_is_good_until_its_window_ends_or_its_hold() {
    let house = house();
    house.time.advance(Duration::from_millis(59_400));
    let wish = json!({"amounts": {"rpm": 1, "usd": 0, "daily": 0}, "hold_ms": 1_000});
    let body = house.post("/v1/grant", of("chat", wish)).await.json();
    assert_eq!(body["grant"]["good_for_ms"], 600);
    assert_eq!(body["grant"]["good_until"], "2026-01-01T12:01:00Z");
    assert_eq!(body["grant"]["expires_at"], "2026-01-01T12:01:00.4Z");
    // The policy's tier says how long one is held; else it is a second.
    let body = house.post("/v1/grant", of("held", json!({}))).await.json();
    assert_eq!(body["grant"]["good_for_ms"], 250);
    assert_eq!(body["grant"]["amounts"], json!({"rpm": 1}));
    let wish = json!({"amounts": {"rpm": 0, "usd": 1}});
    let body = house.post("/v1/grant", of("chat", wish)).await.json();
    assert_eq!(body["grant"]["expires_at"], "2026-01-01T12:01:00.4Z");
}

#[tokio::test]
async fn less_than_the_least_is_refused_and_nothing_is_taken() {
    let house = house();
    let take = json!({"amounts": {"rpm": 7}});
    assert_eq!(house.post("/v1/check", of("held", take)).await.status, 200);
    let wish = json!({"amounts": {"rpm": 10}, "least": {"rpm": 4}});
    let refused = house.post("/v1/grant", of("held", wish)).await;
    refused.problem(429, "refused");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(left(&house, "held", "rpm").await, 3);
    let wish = json!({"amounts": {"rpm": 10}, "least": {"rpm": 3}});
    let granted = house.post("/v1/grant", of("held", wish)).await.json();
    assert_eq!(granted["grant"]["amounts"], json!({"rpm": 3}));
    let wish = json!({"amounts": {"rpm": 20}, "least": {"rpm": 11}});
    house
        .post("/v1/grant", of("held", wish))
        .await
        .problem(422, "never");
}

#[tokio::test]
async fn what_cannot_be_granted_says_why() {
    let house = house();
    for (policy, more, says) in [
        (
            "slots",
            json!({}),
            "no grant is made of `running`, which is a concurrency limit",
        ),
        (
            "slots",
            json!({"amounts": {"running": 0}}),
            "no grant is made of `running`",
        ),
        (
            "refunds",
            json!({"cost": 1}),
            "no grant is made of `tpm`, which has `on_failure =",
        ),
        ("pool", json!({}), "a pool gives no grants"),
        (
            "held",
            json!({"hold_ms": 9}),
            "`hold_ms` is from 10 to 60000, not 9",
        ),
        (
            "held",
            json!({"hold_ms": 60_001}),
            "`hold_ms` is from 10 to 60000, not 60001",
        ),
        (
            "held",
            json!({"least": {"nothing": 1}}),
            "there is no limit `nothing`",
        ),
        (
            "held",
            json!({"lease": "6772616e742e74670000000000000001"}),
            "ids that begin with 6772616e742e7467,",
        ),
        // Of the first the units could not be given back, and of the second a node was listed that
        // there was not.
        (
            "held",
            json!({"lease": "6c6f63616c2e74670000000000000007"}),
            "are reserved for what servers take",
        ),
        (
            "held",
            json!({"lease": "736c6f74732e74670000000000000007"}),
            "are reserved for what servers take",
        ),
        ("held", json!({"lease": "abc"}), "32 hexadecimal digits"),
        (
            "held",
            json!({"amounts": {"rpm": 0}}),
            "the request takes nothing",
        ),
    ] {
        let reply = house.post("/v1/grant", of(policy, more.clone())).await;
        let detail = reply.problem(400, "invalid");
        assert!(detail.contains(says), "{policy} {more}: {detail}");
        assert_eq!(left(&house, "held", "rpm").await, 10);
    }
}

#[tokio::test]
async fn a_grant_that_nobody_was_told_of_is_given_back() {
    let house = house();
    let wish = of("held", json!({"amounts": {"rpm": 10}}));
    let request = Request::post("/v1/grant").header("content-type", "application/json");
    let request = request.body(Body::from(wish.to_string())).unwrap();
    let response = house.server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(left(&house, "held", "rpm").await, 0);
    drop(response);
    assert_eq!(left(&house, "held", "rpm").await, 10);
}

#[tokio::test]
async fn a_store_that_cannot_tell_grants_nothing_whatever_the_failure_mode() {
    let house = House::away();
    let wish = json!({"policy": "small", "key": "k"});
    assert_eq!(
        house.post("/v1/check", wish.clone()).await.json()["degraded"],
        true
    );
    house
        .post("/v1/grant", wish)
        .await
        .problem(503, "unavailable");
}

#[tokio::test]
async fn what_was_used_beyond_a_grant_is_debt_and_after_its_end_too() {
    let house = house();
    let wish = json!({"amounts": {"rpm": 3, "usd": 0, "daily": 100}, "lease": ID});
    assert_eq!(house.post("/v1/grant", of("chat", wish)).await.status, 200);
    house.time.advance(Duration::from_secs(5));
    let back = of(
        "chat",
        json!({"lease": ID, "used": {"rpm": 1, "daily": 300}}),
    );
    let ended = house.post("/v1/return", back).await.json();
    assert_eq!(ended["expired"], true);
    assert_eq!(left(&house, "chat", "daily").await, 700);
    assert_eq!(left(&house, "chat", "rpm").await, 9);
}
