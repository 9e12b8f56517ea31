//! For proxies that request before they pass a request on.

use axum::body::Body;
use axum::http::Request;
use tidegate_service::Scope;

use crate::support::{House, Reply};

async fn request(house: &House, uri: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = Request::get(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    house.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn yes_is_said_without_a_body() {
    let house = House::new();
    let reply = house.get("/v1/auth?policy=web&key=k").await;
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert_eq!(reply.header("ratelimit"), Some(r#""rpm";r=2;t=20"#));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("content-type"), None);
}

#[tokio::test]
async fn no_is_said_in_the_status_that_the_proxy_understands() {
    let house = House::new();
    for _ in 0..3 {
        house.get("/v1/auth?policy=web&key=k").await;
    }
    let reply = house.get("/v1/auth?policy=web&key=k").await;
    reply.problem(429, "refused");
    let reply = house.get("/v1/auth?policy=web&key=k&denied=403").await;
    reply.problem(403, "refused");
    assert_eq!(reply.header("retry-after"), Some("20"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    // A proxy has nothing to give back by.
    let held = house.get("/v1/auth?policy=jobs&key=k").await;
    let told = held.problem(400, "invalid");
    assert!(
        told.contains("name a policy without concurrency limits"),
        "{told}"
    );
    // Never is no, too.
    let never = "/v1/auth?policy=chat&key=acme/k&cost=9001";
    house.get(never).await.problem(422, "never");
    house
        .get(&format!("{never}&denied=403"))
        .await
        .problem(403, "never");
}

#[tokio::test]
async fn what_to_ask_may_stand_in_headers() {
    let house = House::new();
    let headers = [
        ("x-tidegate-policy", "chat"),
        ("x-tidegate-key", "acme/alice"),
        ("x-tidegate-cost", "4000"),
    ];
    let reply = request(&house, "/v1/auth?headers=legacy", &headers).await;
    assert_eq!(
        (reply.status, reply.header("x-ratelimit-remaining")),
        (200, Some("5000"))
    );
}

#[tokio::test]
async fn a_header_completes_nothing_that_stands_in_the_query() {
    let house = House::new();
    let uri = "/v1/auth?policy=web&key=k";
    let reply = request(
        &house,
        uri,
        &[("x-tidegate-cost", "0"), ("x-tidegate-key", "other")],
    )
    .await;
    assert_eq!(reply.header("ratelimit"), Some(r#""rpm";r=2;t=20"#));
    let reply = request(&house, "/v1/auth?policy=web", &[("x-tidegate-key", "k")]).await;
    reply.problem(400, "invalid");
}

#[tokio::test]
async fn what_makes_no_sense_is_an_error() {
    let house = House::new();
    let queries = [
        "",
        "?policy=web",
        "?key=k",
        "?policy=web&key=",
        "?policy=web&key=k&costs=1",
        "?policy=web&key=k&cost=-1",
        "?policy=web&key=k&cost=1.5",
        "?policy=web&key=k&cost=%2B1",
        "?policy=web&key=k&cost=9007199254740992",
        "?policy=web&key=k&denied=200",
        "?policy=web&key=k&denied=forbidden",
        "?policy=web&policy=chat&key=k",
        "?policy=web&key=k&headers=modern",
        "?policy=jobs&key=k",
    ];
    for query in queries {
        house
            .get(&format!("/v1/auth{query}"))
            .await
            .problem(400, "invalid");
    }
    house
        .get("/v1/auth?policy=nowhere&key=k")
        .await
        .problem(404, "not_found");
    let bytes = axum::http::HeaderValue::from_bytes(b"\xff").unwrap();
    let request = Request::get("/v1/auth").header("x-tidegate-policy", bytes);
    house
        .send(request.body(Body::empty()).unwrap())
        .await
        .problem(400, "invalid");
}

#[tokio::test]
async fn the_proxy_may_have_a_token_beside_the_clients_own() {
    let house = House::new();
    house.lock(&[("proxy", &[Scope::Decide], &[])]);
    let uri = "/v1/auth?policy=web&key=k";
    let clients = ("authorization", "Basic YTpi");
    request(&house, uri, &[clients])
        .await
        .problem(401, "unauthenticated");
    let reply = request(&house, uri, &[clients, ("x-tidegate-token", "proxy")]).await;
    assert_eq!(reply.status, 200);
    let reply = request(&house, uri, &[("authorization", "bearer proxy")]).await;
    assert_eq!(reply.status, 200);
}
