//! Leases, by their id.

use std::time::Duration;

use serde_json::json;

use crate::support::House;

#[tokio::test]
async fn a_lease_is_granted_with_its_id_fence_and_expiry() {
    let house = House::new();
    let reply = house
        .post("/v1/acquire", json!({"policy": "jobs", "key": "k"}))
        .await;
    assert_eq!(reply.status, 200);
    let body = reply.json();
    assert_eq!(body["admitted"], true);
    assert_eq!(body["limits"]["running"]["remaining"], 0);
    let lease = &body["lease"];
    assert_eq!(lease["id"].as_str().unwrap().len(), 32);
    assert!(lease["fence"].as_u64().unwrap() > 0);
    assert_eq!(lease["granted_at"], "2026-01-01T12:00:00Z");
    assert_eq!(lease["expires_at"], "2026-01-01T12:00:30Z");
    assert_eq!(lease["repeated"], false);
    assert_eq!(lease["expires_in_ms"], 30_000);
    assert_eq!(lease["waited_ms"], 0);
}

/// A client that takes a lease over counts from its own request, and knows nothing of what had
/// passed before.
#[tokio::test]
async fn a_lease_that_is_given_again_says_how_much_of_it_is_left() {
    let house = House::new();
    let request = json!({"policy": "jobs", "key": "k", "idempotency_key": "nightly"});
    let first = house.post("/v1/acquire", request.clone()).await.json();
    house.time.advance(Duration::from_secs(20));
    let lease = house.post("/v1/acquire", request).await.json()["lease"].clone();
    assert_eq!(
        (&lease["id"], &lease["repeated"]),
        (&first["lease"]["id"], &json!(true))
    );
    assert_eq!(lease["expires_in_ms"], 10_000);
}

#[tokio::test]
async fn what_is_held_is_refused_to_the_next_and_free_after_release() {
    let house = House::new();
    let id = house.hold("k").await;
    let request = json!({"policy": "jobs", "key": "k"});
    let refused = house.post("/v1/acquire", request.clone()).await;
    refused.problem(429, "refused");
    assert_eq!(refused.header("retry-after"), Some("30"));
    let release = json!({"policy": "jobs", "key": "k", "lease": id});
    let reply = house.post("/v1/release", release.clone()).await;
    let ended = json!({
        "expired": false, "repeated": false, "limits": {"running": {"taken": 1, "used": 1}},
    });
    assert_eq!((reply.status, reply.json()), (200, ended));
    assert_eq!(
        house.post("/v1/release", release).await.json()["repeated"],
        true
    );
    assert_eq!(house.post("/v1/acquire", request).await.status, 200);
}

#[tokio::test]
async fn a_settlement_refunds_what_was_not_used() {
    let house = House::new();
    let request = json!({"policy": "chat", "key": "acme/alice", "amounts": {"tpm": 4_000}});
    let id = house.post("/v1/acquire", request).await.json()["lease"]["id"].clone();
    let settle =
        json!({"policy": "chat", "key": "acme/alice", "lease": id, "used": {"tpm": 3_000}});
    let reply = house.post("/v1/settle", settle).await;
    assert_eq!(
        reply.json()["limits"],
        json!({"tpm": {"taken": 4_000, "used": 3_000}})
    );
    let peek = json!({"policy": "chat", "key": "acme/alice", "cost": 1});
    let limits = house.post("/v1/peek", peek).await.json()["limits"].clone();
    assert_eq!(limits["tpm"]["remaining"], 6_000);
}

#[tokio::test]
async fn a_lease_is_adjusted_and_settled_by_a_cost() {
    let house = House::new();
    let about = |more: &[(&str, serde_json::Value)]| {
        let mut body = json!({"policy": "chat", "key": "acme/alice"});
        for (name, value) in more {
            body[*name] = value.clone();
        }
        body
    };
    let request = about(&[("cost", json!(1_000))]);
    let id = &house.post("/v1/acquire", request).await.json()["lease"]["id"];
    let adjust = about(&[("lease", id.clone()), ("cost", json!(4_000))]);
    let adjusted = house.post("/v1/adjust", adjust).await;
    assert_eq!(adjusted.json()["limits"]["tpm"]["remaining"], 5_000);
    let refused = about(&[("lease", id.clone()), ("cost", json!(9_001))]);
    house
        .post("/v1/adjust", refused.clone())
        .await
        .problem(429, "refused");
    let mut overdrawn = refused;
    overdrawn["overdraw"] = json!(true);
    let overdrawn = house.post("/v1/adjust", overdrawn).await.json();
    assert_eq!(overdrawn["limits"]["tpm"]["debt"], 1);
    let nothing = about(&[("lease", id.clone()), ("amounts", json!({}))]);
    house
        .post("/v1/adjust", nothing)
        .await
        .problem(400, "invalid");
    let settle = about(&[("lease", id.clone()), ("cost", json!(3_000))]);
    let settled = house.post("/v1/settle", settle).await.json();
    assert_eq!(
        settled["limits"]["tpm"],
        json!({"taken": 9_001, "used": 3_000})
    );
}

#[tokio::test]
async fn a_cancelled_lease_used_nothing() {
    let house = House::new();
    let request = json!({"policy": "chat", "key": "acme/alice", "amounts": {"tpm": 4_000}});
    let id = house.post("/v1/acquire", request).await.json()["lease"]["id"].clone();
    let cancel = json!({"policy": "chat", "key": "acme/alice", "lease": id});
    let reply = house.post("/v1/cancel", cancel).await;
    assert_eq!(
        reply.json()["limits"],
        json!({"tpm": {"taken": 4_000, "used": 0}})
    );
}

#[tokio::test]
async fn a_renewed_lease_lasts_from_now_on() {
    let house = House::new();
    let id = house.hold("k").await;
    house.time.advance(Duration::from_secs(20));
    let renew = json!({"policy": "jobs", "key": "k", "lease": id, "ttl_ms": 60_000});
    let reply = house.post("/v1/renew", renew.clone()).await;
    let for_60_s = json!({"expires_at": "2026-01-01T12:01:20Z", "expires_in_ms": 60_000});
    assert_eq!(reply.json(), for_60_s);
    house.time.advance(Duration::from_secs(60));
    let detail = house
        .post("/v1/renew", renew)
        .await
        .problem(409, "lease_ended");
    assert_eq!(
        detail,
        "the lease had ended by 2026-01-01T12:01:20Z; acquire again"
    );
}

#[tokio::test]
async fn a_renewal_that_does_not_say_gives_what_a_lease_gets_that_does_not_say() {
    let house = House::new();
    let id = house.hold("k").await;
    house.time.advance(Duration::from_secs(20));
    let renew = json!({"policy": "jobs", "key": "k", "lease": id});
    let reply = house.post("/v1/renew", renew.clone()).await;
    let for_30_s = json!({"expires_at": "2026-01-01T12:00:50Z", "expires_in_ms": 30_000});
    assert_eq!(reply.json(), for_30_s);
    let null = json!({"policy": "jobs", "key": "k", "lease": id, "ttl_ms": null});
    house.post("/v1/renew", null).await.problem(400, "invalid");
}

#[tokio::test]
async fn a_lease_is_adjusted_to_what_is_said_in_all() {
    let house = House::new();
    let about = |more: serde_json::Value| {
        let mut body = json!({"policy": "chat", "key": "acme/alice"});
        let (body_of, more) = (body.as_object_mut().unwrap(), more.as_object().unwrap());
        body_of.extend(more.clone());
        body
    };
    let request = about(json!({"amounts": {"tpm": 1_000}}));
    let id = house.post("/v1/acquire", request).await.json()["lease"]["id"].clone();
    let to = |tpm: u64| about(json!({"lease": id, "amounts": {"tpm": tpm}}));
    let first = house.post("/v1/adjust", to(4_000)).await;
    assert_eq!(
        (first.status, &first.json()["admitted"]),
        (200, &json!(true))
    );
    let left = first.json()["limits"]["tpm"]["remaining"].as_u64().unwrap();
    assert!(first.header("ratelimit").is_some());
    let again = house.post("/v1/adjust", to(4_000)).await.json();
    assert_eq!(
        again["limits"]["tpm"]["remaining"], left,
        "the second changes nothing"
    );
    let refused = house.post("/v1/adjust", to(4_001 + left)).await;
    refused.problem(429, "refused");
    assert!(refused.header("retry-after").is_some());
    let mut over = to(4_500 + left);
    over["overdraw"] = json!(true);
    let over = house.post("/v1/adjust", over).await;
    assert_eq!(
        (over.status, &over.json()["limits"]["tpm"]["remaining"]),
        (200, &json!(0))
    );
    let less = house.post("/v1/adjust", to(0)).await.json();
    assert_eq!(less["limits"]["tpm"]["remaining"], left + 4_000);
    let huge = house.post("/v1/adjust", to(9_000_000)).await;
    huge.problem(422, "never");
    house
        .post("/v1/adjust", about(json!({"lease": id})))
        .await
        .problem(400, "invalid");
    let cancel = about(json!({"lease": id}));
    assert_eq!(house.post("/v1/cancel", cancel).await.status, 200);
    let late = house.post("/v1/adjust", to(1)).await;
    late.problem(409, "lease_ended");
}

#[tokio::test]
async fn a_lease_that_was_never_given_is_not_found() {
    let house = House::new();
    let id = "0123456789abcdef0123456789abcdef";
    let end = json!({"policy": "jobs", "key": "k", "lease": id});
    for path in ["/v1/settle", "/v1/release", "/v1/cancel"] {
        house
            .post(path, end.clone())
            .await
            .problem(404, "not_found");
    }
    let renew = json!({"policy": "jobs", "key": "k", "lease": id, "ttl_ms": 1_000});
    house
        .post("/v1/renew", renew)
        .await
        .problem(404, "not_found");
    let adjust = json!({"policy": "jobs", "key": "k", "lease": id, "amounts": {"running": 1}});
    house
        .post("/v1/adjust", adjust)
        .await
        .problem(404, "not_found");
}

#[tokio::test]
async fn the_same_idempotency_key_gives_the_same_lease() {
    let house = House::new();
    let request =
        json!({"policy": "jobs", "key": "k", "idempotency_key": "job 7", "ttl_ms": 5_000});
    let first = house.post("/v1/acquire", request.clone()).await.json()["lease"].clone();
    assert_eq!(first["expires_at"], "2026-01-01T12:00:05Z");
    let again = house.post("/v1/acquire", request).await.json()["lease"].clone();
    assert_eq!(again["id"], first["id"]);
    assert_eq!(again["granted_at"], first["granted_at"]);
    assert_eq!(again["repeated"], true);
    let long = json!({"policy": "jobs", "key": "k", "idempotency_key": "x".repeat(256)});
    let detail = house
        .post("/v1/acquire", long)
        .await
        .problem(400, "invalid");
    assert_eq!(
        detail,
        "an idempotency key has 1 to 255 bytes, not 256; send a hash of it"
    );
    let empty = json!({"policy": "jobs", "key": "k", "idempotency_key": ""});
    let detail = house
        .post("/v1/acquire", empty)
        .await
        .problem(400, "invalid");
    assert_eq!(
        detail,
        "an idempotency key has 1 to 255 bytes, not 0; send at least one, or no key at all"
    );
}

#[tokio::test]
async fn who_waits_is_served_when_the_slot_comes_back() {
    let house = House::new();
    let id = house.hold("k").await;
    let request = json!({"policy": "jobs", "key": "k", "wait_ms": 10_000});
    let waiting = house.post("/v1/acquire", request);
    let release = async {
        tokio::task::yield_now().await;
        let release = json!({"policy": "jobs", "key": "k", "lease": id});
        house.post("/v1/release", release).await
    };
    let (reply, _) = tokio::join!(waiting, release);
    assert_eq!(
        (reply.status, &reply.json()["admitted"]),
        (200, &json!(true))
    );
}

#[tokio::test]
async fn who_waits_in_vain_is_refused_at_the_deadline() {
    let house = House::new();
    house.hold("k").await;
    let request = json!({"policy": "jobs", "key": "k", "wait_ms": 10_000});
    let waiting = house.post("/v1/acquire", request);
    let time = async {
        tokio::task::yield_now().await;
        house.time.advance(Duration::from_secs(10));
    };
    let (reply, ()) = tokio::join!(waiting, time);
    reply.problem(429, "refused");
    assert_eq!(reply.header("retry-after"), Some("20"));
}

#[tokio::test]
async fn the_urgent_go_first() {
    let house = House::new();
    let id = house.hold("k").await;
    let request = |priority: u8| json!({"policy": "jobs", "key": "k", "wait_ms": 10_000, "priority": priority});
    let (calm, urgent) = (request(0), request(9));
    let ends = async {
        tokio::task::yield_now().await;
        let release = json!({"policy": "jobs", "key": "k", "lease": id});
        house.post("/v1/release", release).await;
        tokio::task::yield_now().await;
        house.time.advance(Duration::from_secs(10));
    };
    let (calm, urgent, ()) = tokio::join!(
        house.post("/v1/acquire", calm),
        house.post("/v1/acquire", urgent),
        ends
    );
    assert_eq!((calm.status, urgent.status), (429, 200));
}

#[tokio::test]
async fn nobody_waits_longer_than_the_server_allows() {
    let house = House::new();
    let request = json!({"policy": "jobs", "key": "k", "wait_ms": 300_001});
    let detail = house
        .post("/v1/acquire", request)
        .await
        .problem(400, "invalid");
    assert_eq!(
        detail,
        "a request may wait 300s at most here, not 300.001s; wait 300s or less, or raise `longest_wait` in `[server]`"
    );
    assert_eq!(house.free("k").await, 1);
}

#[tokio::test]
async fn a_service_that_closes_answers_who_waits() {
    let house = House::new();
    house.hold("k").await;
    let request = json!({"policy": "jobs", "key": "k", "wait_ms": 10_000});
    let close = async {
        tokio::task::yield_now().await;
        house.service.close();
    };
    let (reply, ()) = tokio::join!(house.post("/v1/acquire", request), close);
    reply.problem(503, "unavailable");
}

#[tokio::test]
async fn concurrency_without_a_lease_is_an_error_that_says_how() {
    let house = House::new();
    let request = json!({"policy": "jobs", "key": "k"});
    let detail = house
        .post("/v1/check", request)
        .await
        .problem(400, "invalid");
    assert!(detail.contains("take it with acquire"), "{detail}");
}
