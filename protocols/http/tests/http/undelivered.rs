//! Leases that nobody received.

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::House;

async fn acquire(house: &House, body: Value) -> Response<Body> {
    let request = Request::post("/v1/acquire").header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = house.server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

#[tokio::test]
async fn a_lease_whose_answer_was_never_taken_is_cancelled() {
    let house = House::new();
    let response = acquire(&house, json!({"policy": "jobs", "key": "k"})).await;
    assert_eq!(house.free("k").await, 0);
    drop(response);
    assert_eq!(house.free("k").await, 1);
    // Rate amounts come back too: the work did not start.
    let request = json!({"policy": "chat", "key": "acme/alice", "cost": 4_000});
    drop(acquire(&house, request.clone()).await);
    let peek = house.post("/v1/peek", request).await.json();
    assert_eq!(peek["limits"]["tpm"]["remaining"], 9_000);
}

#[tokio::test]
async fn a_lease_whose_answer_was_taken_stays_with_its_holder() {
    let house = House::new();
    let response = acquire(&house, json!({"policy": "jobs", "key": "k"})).await;
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert!(!body.is_empty());
    assert_eq!(house.free("k").await, 0);
}

#[tokio::test]
async fn a_lease_that_will_be_asked_for_again_is_kept() {
    let house = House::new();
    let request = json!({"policy": "jobs", "key": "k", "idempotency_key": "job 7"});
    drop(acquire(&house, request.clone()).await);
    assert_eq!(house.free("k").await, 0);
    let again = house.post("/v1/acquire", request).await.json();
    assert_eq!(again["lease"]["repeated"], true);
    assert_eq!(house.free("k").await, 0);
}
