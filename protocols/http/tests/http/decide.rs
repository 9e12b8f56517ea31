//! Asks without a lease.

use std::time::Duration;

use serde_json::{Value, json};

use crate::counted::Counted;
use crate::support::House;

#[tokio::test]
async fn a_check_is_admitted_and_says_where_the_limits_stand() {
    let house = House::new();
    let reply = house
        .post("/v1/check", json!({"policy": "web", "key": "alice"}))
        .await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let rpm = json!({
        "limit": 3, "remaining": 2, "debt": 0,
        "replenish_at": "2026-01-01T12:00:20Z", "full_at": "2026-01-01T12:00:20Z",
    });
    let expected = json!({
        "admitted": true, "binding": null, "not_until": null, "retry_after_ms": null,
        "limits": {"rpm": rpm}, "degraded": false, "shadowed": false,
    });
    assert_eq!(reply.json(), expected);
}

#[tokio::test]
async fn a_refusal_is_a_problem_that_says_when_to_come_back() {
    let house = House::new();
    let request = json!({"policy": "web", "key": "alice"});
    for _ in 0..3 {
        assert_eq!(house.post("/v1/check", request.clone()).await.status, 200);
    }
    house.time.advance(Duration::from_micros(1));
    let reply = house.post("/v1/check", request.clone()).await;
    let detail = reply.problem(429, "refused");
    assert_eq!(detail, "refused by rpm; retry at 2026-01-01T12:00:20Z");
    let body = reply.json();
    assert_eq!(
        body["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(body["title"], "Quota exceeded");
    assert_eq!(body["violated-policies"], json!(["rpm"]));
    assert_eq!(body["admitted"], json!(false));
    assert_eq!(body["binding"], "rpm");
    assert_eq!(body["not_until"], "2026-01-01T12:00:20Z");
    assert_eq!(body["retry_after_ms"], 20_000);
    assert_eq!(body["limits"]["rpm"]["remaining"], 0);
    // The instant is exact: not one microsecond earlier.
    house.time.advance(Duration::from_micros(19_999_998));
    assert_eq!(house.post("/v1/check", request.clone()).await.status, 429);
    house.time.advance(Duration::from_micros(1));
    assert_eq!(house.post("/v1/check", request).await.status, 200);
}

#[tokio::test]
async fn cost_and_amounts_are_taken_of_the_limits_they_name() {
    let house = House::new();
    let request =
        json!({"policy": "chat", "key": "acme/alice", "cost": 10, "amounts": {"tpm": 4_000}});
    let limits = house.post("/v1/check", request).await.json()["limits"].clone();
    assert_eq!(limits["tpm"]["remaining"], 5_000);
    assert_eq!(limits["daily"]["remaining"], 19_990);
    assert_eq!(limits["daily"]["full_at"], "2026-01-02T00:00:00Z");
}

#[tokio::test]
async fn a_key_in_base64_is_the_same_key() {
    let house = House::new();
    let check = async |request| {
        house.post("/v1/check", request).await.json()["limits"]["rpm"]["remaining"].clone()
    };
    assert_eq!(check(json!({"policy": "web", "key": "alice"})).await, 2);
    assert_eq!(
        check(json!({"policy": "web", "key_base64": "YWxpY2U="})).await,
        1
    );
    assert_eq!(
        check(json!({"policy": "web", "key_base64": "/wA="})).await,
        2
    );
}

#[tokio::test]
async fn more_than_a_limit_ever_grants_is_unprocessable() {
    let house = House::new();
    let request = json!({"policy": "chat", "key": "acme/alice", "cost": 9_001});
    for path in ["/v1/check", "/v1/acquire", "/v1/peek", "/v1/forecast"] {
        let detail = house
            .post(path, request.clone())
            .await
            .problem(422, "never");
        assert_eq!(
            detail,
            "never: tpm grants at most 9000 at once; ask for less, or raise the limit"
        );
    }
}

#[tokio::test]
async fn several_checks_are_answered_each_by_itself() {
    let house = House::new();
    let checks = json!({"checks": [
        {"policy": "web", "key": "alice"},
        {"policy": "nowhere", "key": "alice"},
        {"policy": "web", "key": "alice", "amounts": {"rpm": 3}},
        {"policy": "jobs", "key": "alice"},
    ]});
    let reply = house.post("/v1/check-many", checks).await;
    assert_eq!(reply.status, 200);
    let answers = reply.json()["answers"].clone();
    assert_eq!(answers[0]["admitted"], true);
    assert_eq!(answers[1]["problem"]["code"], "not_found");
    assert_eq!(answers[1]["problem"]["status"], 404);
    assert_eq!(answers[2]["admitted"], false);
    assert_eq!(answers[2]["binding"], "rpm");
    assert_eq!(answers[2]["not_until"], "2026-01-01T12:00:20Z");
    assert_eq!(answers[3]["problem"]["code"], "invalid");
}

/// They went one after the other, a command and a round trip each.
#[tokio::test]
async fn the_checks_of_one_policy_are_one_command() {
    let store = Counted::default();
    let house = House::on(store.clone());
    store.take();
    let checks = json!({"checks": [
        {"policy": "web", "key": "alice", "amounts": {"rpm": 2}},
        {"policy": "shady", "key": "alice"},
        {"policy": "web", "key": "bob"},
        {"policy": "web", "key": "alice", "amounts": {"rpm": 2}},
    ]});
    store.await_together(2);
    let reply = house.post("/v1/check-many", checks).await;
    let answers = reply.json()["answers"].clone();
    let admitted = [0, 1, 2, 3].map(|at| answers[at]["admitted"].clone());
    assert_eq!(admitted, [true, true, true, false].map(|told| json!(told)));
    let commands = store.take();
    assert_eq!(commands, [("shady".to_owned(), 1), ("web".to_owned(), 3)]);
}

#[tokio::test]
async fn as_many_checks_as_are_allowed_and_no_more() {
    let house = House::new();
    let checks = |count| vec![json!({"policy": "shady", "key": "k"}); count];
    let most = json!({"checks": checks(1_000)});
    assert_eq!(house.post("/v1/check-many", most).await.status, 200);
    for count in [0, 1_001] {
        let reply = house
            .post("/v1/check-many", json!({"checks": checks(count)}))
            .await;
        let detail = reply.problem(400, "invalid");
        assert_eq!(detail, "`checks` holds from 1 to 1000 checks");
    }
}

#[tokio::test]
async fn what_is_wrong_with_one_of_several_checks_is_said_and_where() {
    let house = House::new();
    let cases = [
        (
            json!({"policy": "web", "costs": 1}),
            "`checks[1].costs`: unknown field `costs`",
        ),
        (
            json!(["web", "k"]),
            "`checks[1]`: found an array, expected an object",
        ),
        (
            json!({"policy": "web"}),
            "`checks[1]`: say who is limited: `key` is missing",
        ),
    ];
    for (wrong, expected) in cases {
        let checks = json!({"checks": [{"policy": "web", "key": "k"}, wrong]});
        let detail = house
            .post("/v1/check-many", checks)
            .await
            .problem(400, "invalid");
        assert!(detail.starts_with(expected), "{detail}");
    }
    // The check before it was not taken either.
    let peek = house.post("/v1/peek", json!({"policy": "web", "key": "k"}));
    assert_eq!(peek.await.json()["limits"]["rpm"]["remaining"], 3);
}

#[tokio::test]
async fn a_debit_charges_whatever_was_used_and_becomes_debt() {
    let house = House::new();
    let debit = json!({"policy": "chat", "key": "acme/alice", "amounts": {"tpm": 10_000}});
    let reply = house.post("/v1/debit", debit).await;
    assert_eq!(reply.status, 200);
    let body = reply.json();
    assert_eq!(body["admitted"], false);
    assert_eq!(body["limits"]["tpm"]["debt"], 1_000);
    assert_eq!(reply.header("retry-after"), None);
}

#[tokio::test]
async fn a_peek_changes_nothing_and_is_never_a_refusal() {
    let house = House::new();
    let request = json!({"policy": "web", "key": "alice", "amounts": {"rpm": 3}});
    for _ in 0..3 {
        let reply = house.post("/v1/peek", request.clone()).await;
        assert_eq!(
            (reply.status, &reply.json()["admitted"]),
            (200, &json!(true))
        );
    }
    house.post("/v1/check", request.clone()).await;
    let reply = house.post("/v1/peek", request).await;
    assert_eq!(
        (reply.status, &reply.json()["admitted"]),
        (200, &json!(false))
    );
    assert_eq!(reply.json()["not_until"], "2026-01-01T12:01:00Z");
    assert_eq!(reply.header("retry-after"), None);
    assert!(reply.header("ratelimit").is_some());
}

#[tokio::test]
async fn a_forecast_says_how_many_fit_and_when() {
    let house = House::new();
    let request = json!({"policy": "chat", "key": "acme/alice", "amounts": {"tpm": 2_000}});
    let limits = house.post("/v1/forecast", request.clone()).await.json()["limits"].clone();
    assert_eq!(limits["tpm"]["spendable"], 4);
    assert_eq!(limits["tpm"]["admitted"], true);
    assert!(limits["daily"].is_null());
    for _ in 0..4 {
        house.post("/v1/check", request.clone()).await;
    }
    let limits = house.post("/v1/forecast", request).await.json()["limits"].clone();
    assert_eq!(limits["tpm"]["spendable"], 0);
    assert_eq!(limits["tpm"]["not_until"], "2026-01-01T12:00:10Z");
    assert_eq!(limits["tpm"]["limit"], 9_000);
}

/// Where a policy has nothing but rates, it was said to take nothing, and was no peek.
#[tokio::test]
async fn a_peek_that_says_no_amount_shows_every_limit_of_the_key() {
    let house = House::new();
    let key = json!({"policy": "chat", "key": "acme/alice"});
    let peek = house.post("/v1/peek", key.clone()).await;
    assert_eq!((peek.status, &peek.json()["admitted"]), (200, &json!(true)));
    let left = |reply: &Value, limit: &str| reply["limits"][limit]["remaining"].clone();
    assert_eq!(left(&peek.json(), "tpm"), 9_000);
    assert_eq!(left(&peek.json(), "daily"), 20_000);
    let check = json!({"policy": "chat", "key": "acme/alice", "cost": 9_000});
    house.post("/v1/check", check).await;
    let peek = house.post("/v1/peek", key).await.json();
    assert_eq!(left(&peek, "tpm"), 0);
    assert_eq!(left(&peek, "daily"), 11_000);
    // Whoever wants to take it says how much.
    let check = json!({"policy": "chat", "key": "acme/alice", "cost": 0});
    house.post("/v1/check", check).await.problem(400, "invalid");
}

#[tokio::test]
async fn a_reset_forgets_the_key() {
    let house = House::new();
    let key = json!({"policy": "web", "key": "alice"});
    house.post("/v1/check", key.clone()).await;
    let reply = house.post("/v1/reset", key.clone()).await;
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    let peek = house.post("/v1/peek", key).await.json();
    assert_eq!(peek["limits"]["rpm"]["remaining"], 3);
}

#[tokio::test]
async fn a_shadow_limit_says_so_and_refuses_nobody() {
    let house = House::new();
    let request = json!({"policy": "shady", "key": "alice"});
    let shadowed =
        async || house.post("/v1/check", request.clone()).await.json()["shadowed"].clone();
    assert_eq!(shadowed().await, false);
    assert_eq!(shadowed().await, true);
}

#[tokio::test]
async fn a_store_that_cannot_tell_is_answered_as_the_policy_says() {
    let house = House::away();
    let request = |policy| json!({"policy": policy, "key": "b"});
    for path in ["/v1/check", "/v1/acquire"] {
        let reply = house.post(path, request("small")).await;
        let body = reply.json();
        assert_eq!((reply.status, &body["admitted"]), (200, &json!(true)));
        assert_eq!(
            (&body["degraded"], &body["limits"]),
            (&json!(true), &json!({}))
        );
        assert!(body.get("lease").is_none());
        let reply = house.post(path, request("strict")).await;
        reply.problem(503, "unavailable");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
}

/// That a policy is full is told apart from a store that cannot tell, and admits
/// nobody.
#[tokio::test]
async fn a_full_policy_says_so_whatever_its_failure_mode() {
    let house = House::new();
    for policy in ["small", "strict"] {
        let request = |key| json!({"policy": policy, "key": key});
        assert_eq!(house.post("/v1/check", request("a")).await.status, 200);
        for path in ["/v1/check", "/v1/acquire"] {
            let reply = house.post(path, request("b")).await;
            reply.problem(503, "full");
            assert_eq!(reply.header("retry-after"), Some("1"));
        }
    }
}
