//! The way past the router leads to the same place.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tidegate_http::{Server, Settings};
use tidegate_service::Scope;
use tower::ServiceExt;

use crate::support::{House, Reply};

/// Answers as they are sent: the status, the fields by name, the body.
async fn said(server: &Server, method: &str, path: &str, body: &Value) -> String {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let reply = Reply::of(server.clone().oneshot(request).await.unwrap()).await;
    let mut fields: Vec<_> = reply.headers.iter().collect();
    // Over a connection every answer says how long it is.
    fields.retain(|(name, _)| *name != "content-length");
    fields.sort_by_key(|(name, _)| name.as_str());
    format!("{} {fields:?} {}", reply.status, reply.text())
}

#[tokio::test]
async fn the_front_and_the_router_answer_alike() {
    let house = House::new();
    let plain = Server::new(house.service.clone(), Settings::default()).behind(|router| router);
    let check = |key: &str| json!({"policy": "web", "key": key});
    let questions = [
        ("POST", "/v1/check", check("KEY")),
        ("POST", "/v1/check?headers=legacy", check("KEY")),
        ("POST", "/v1/check?headers=none", check("KEY")),
        ("POST", "/v1/check", check("KEY")),
        ("POST", "/v1/check", check("KEY")),
        ("POST", "/v1/check", json!({"policy": "none", "key": "KEY"})),
        ("POST", "/v1/check", json!({"policy": "web", "cost": -1})),
        ("POST", "/v1/check/", check("KEY")),
        ("POST", "/v1/checks", check("KEY")),
        ("GET", "/v1/check", check("KEY")),
        ("HEAD", "/v1/check", check("KEY")),
        ("PUT", "/v1/check", check("KEY")),
    ];
    for (method, path, question) in questions {
        // Each asks about a key of its own, so that neither sees the other.
        let of = |key| question.to_string().replace("KEY", key).parse().unwrap();
        let front = said(&house.server, method, path, &of("a")).await;
        let router = said(&plain, method, path, &of("b")).await;
        assert_eq!(front, router, "{method} {path} {question}");
    }
}

#[tokio::test]
async fn the_front_lets_nobody_in_whom_the_router_would_not() {
    let house = House::new();
    house.lock(&[("right", &[Scope::Decide], &["web"])]);
    let body = json!({"policy": "web", "key": "a"});
    for (token, status) in [("right", 200), ("wrong", 401)] {
        let reply = house.post_as(token, "/v1/check", body.clone()).await;
        assert_eq!(reply.status, status);
    }
    assert_eq!(house.post("/v1/check", body).await.status, 401);
}

#[tokio::test]
async fn what_stands_before_the_verbs_stands_before_all_of_them() {
    let house = House::new();
    let wrapped = house.server.clone().behind(|router| {
        let before = Router::new().route("/v1/check", axum::routing::any(async || "not yet"));
        before.fallback_service(router)
    });
    let question = json!({"policy": "web", "key": "a"});
    let answer = said(&wrapped, "POST", "/v1/check", &question).await;
    assert!(answer.ends_with("not yet"), "{answer}");
    let answer = said(&wrapped, "POST", "/v1/peek", &question).await;
    assert!(answer.contains("admitted"), "{answer}");
}
