//! Overrides that are changed on their version, for a reason, and until an instant.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tidegate_service::{Credential, Scope};

use crate::support::{House, Reply};

const PATH: &str = "/v1/overrides";
const WEB: &str = "/v1/overrides?policy=web&key=acme";

async fn ask(house: &House, method: &str, path: &str, says: &[(&str, &str)], body: &str) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in says {
        request = request.header(*name, *value);
    }
    house
        .send(request.body(Body::from(body.to_owned())).unwrap())
        .await
}

fn calls(count: u64, more: &Value) -> String {
    let limits = json!({"rpm": {"calls": count, "per": "1m"}});
    let mut body = json!({"policy": "web", "key": "acme", "limits": limits});
    let more = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    body.to_string()
}

fn tag(reply: &Reply) -> String {
    let tag = reply.headers.get("etag").expect("a version");
    tag.to_str().unwrap().to_owned()
}

/// How many `web` grants the key.
async fn granted(house: &House) -> u64 {
    let peek = json!({"policy": "web", "key": "acme"});
    let peek = house.post("/v1/peek", peek).await.json();
    peek["limits"]["rpm"]["limit"].as_u64().unwrap()
}

#[tokio::test]
async fn a_change_on_an_old_version_is_refused_with_the_one_that_is_there() {
    let house = House::new();
    let first = ask(&house, "PUT", PATH, &[], &calls(5, &json!({}))).await;
    let one = tag(&first);
    assert_eq!(one, format!("\"{}\"", first.json()["version"]));
    let seen = house.get(&format!("{WEB}&exact=true")).await;
    assert_eq!(tag(&seen), one);
    let on_one = [("if-match", one.as_str())];
    let second = ask(&house, "PUT", PATH, &on_one, &calls(6, &json!({}))).await;
    assert_eq!(second.status, 200);
    let two = tag(&second);
    assert_ne!(one, two);
    for method in ["PUT", "DELETE"] {
        let body = match method {
            "PUT" => calls(7, &json!({})),
            _ => String::new(),
        };
        let path = if method == "PUT" { PATH } else { WEB };
        let late = ask(&house, method, path, &on_one, &body).await;
        let detail = late.problem(412, "conflict");
        assert!(detail.contains("web/acme is at version"), "{detail}");
        assert_eq!(format!("\"{}\"", late.json()["version"]), two);
        assert_eq!(tag(&late), two);
    }
    assert_eq!(granted(&house).await, 6);
    let gone = ask(&house, "DELETE", WEB, &[("if-match", &two)], "").await;
    assert_eq!(gone.status, 204);
    let gone = ask(&house, "DELETE", WEB, &[("if-match", &two)], "").await;
    let detail = gone.problem(412, "conflict");
    // It was told to set what it wants to be rid of.
    assert!(
        detail.ends_with("web/acme is not there now; there is nothing to remove"),
        "{detail}"
    );
    assert_eq!(gone.json().get("version"), None);
    assert_eq!(gone.headers.get("etag"), None);
}

#[tokio::test]
async fn an_override_is_set_only_where_there_is_none_or_only_where_there_is_one() {
    let house = House::new();
    let (any, none) = ([("if-match", "*")], [("if-none-match", "*")]);
    let put =
        async |says: &[(&str, &str)]| ask(&house, "PUT", PATH, says, &calls(5, &json!({}))).await;
    let detail = put(&any).await.problem(412, "conflict");
    assert!(detail.ends_with("set it without a version"), "{detail}");
    assert_eq!(put(&none).await.status, 200);
    put(&none).await.problem(412, "conflict");
    assert_eq!(put(&any).await.status, 200);
    assert_eq!(ask(&house, "DELETE", WEB, &any, "").await.status, 204);
    ask(&house, "DELETE", WEB, &any, "")
        .await
        .problem(412, "conflict");
    ask(&house, "DELETE", WEB, &none, "")
        .await
        .problem(404, "not_found");
}

#[tokio::test]
async fn a_condition_that_cannot_be_read_changes_nothing() {
    let house = House::new();
    let wrong: [&[(&str, &str)]; 6] = [
        &[("if-match", "17")],
        &[("if-match", "W/\"17\"")],
        &[("if-match", "\"1\", \"2\"")],
        &[("if-match", "\"1\""), ("if-match", "\"2\"")],
        &[("if-none-match", "\"17\"")],
        &[("if-match", "*"), ("if-none-match", "*")],
    ];
    for says in wrong {
        let put = ask(&house, "PUT", PATH, says, &calls(5, &json!({}))).await;
        put.problem(400, "invalid");
        ask(&house, "DELETE", WEB, says, "")
            .await
            .problem(400, "invalid");
    }
    assert_eq!(house.get(PATH).await.json()["overrides"], json!([]));
}

#[tokio::test]
async fn an_override_says_who_set_it_why_and_when_and_no_token_is_told() {
    let house = House::new();
    house.service.replace_credentials([Credential {
        name: "ops".to_owned(),
        sha256: Credential::hash("secret-of-ops"),
        scopes: Scope::ALL.to_vec(),
        policies: Vec::new(),
        namespace: None,
    }]);
    let as_ops = [("authorization", "Bearer secret-of-ops")];
    let reason = json!({"reason": "bought more"});
    let first = ask(&house, "PUT", PATH, &as_ops, &calls(5, &reason)).await;
    assert_eq!(first.json()["reason"], "bought more");
    assert_eq!(first.json()["by"], "ops");
    house.time.advance(Duration::from_secs(60));
    let second = ask(&house, "PUT", PATH, &as_ops, &calls(6, &json!({})))
        .await
        .json();
    assert_eq!(second["created_at"], "2026-01-01T12:00:00Z");
    assert_eq!(second["changed_at"], "2026-01-01T12:01:00Z");
    assert_eq!(second.get("reason"), None);
    let long = json!({"reason": "r".repeat(1_025)});
    let long = ask(&house, "PUT", PATH, &as_ops, &calls(7, &long)).await;
    assert!(long.problem(400, "invalid").contains("`reason`"));
    let entity = json!({"id": "acme"}).to_string();
    let entity = ask(&house, "POST", "/v1/entities", &as_ops, &entity).await;
    for told in [PATH, "/v1/audit", "/v1/entities", "/v1/policies"] {
        let told = ask(&house, "GET", told, &as_ops, "").await;
        assert_eq!(told.status, 200);
        assert!(!told.text().contains("secret-of-ops"), "{}", told.text());
    }
    assert!(!entity.text().contains("secret-of-ops"));
}

#[tokio::test]
async fn an_override_that_ends_holds_until_then_and_is_gone_afterwards() {
    let house = House::new();
    let until = json!({"expires_at": "2026-01-01T13:01:00+01:00"});
    let set = ask(&house, "PUT", PATH, &[], &calls(5, &until))
        .await
        .json();
    assert_eq!(set["expires_at"], "2026-01-01T12:01:00Z");
    house.time.advance(Duration::from_secs(59));
    assert_eq!(granted(&house).await, 5);
    house.time.advance(Duration::from_secs(1));
    while granted(&house).await != 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(house.get(PATH).await.json()["overrides"], json!([]));
    let none = [("if-none-match", "*")];
    let millis = json!({"expires_in_ms": 1_500});
    let set = ask(&house, "PUT", PATH, &none, &calls(6, &millis)).await;
    assert_eq!(set.json()["expires_at"], "2026-01-01T12:01:01.5Z");
    // For good after all.
    assert_eq!(
        ask(&house, "PUT", PATH, &[], &calls(7, &json!({})))
            .await
            .status,
        200
    );
    house.time.advance(Duration::from_secs(3_600));
    assert_eq!(granted(&house).await, 7);
    let wrong = [
        json!({"expires_in_ms": 0}),
        json!({"expires_in_ms": 400_000_000_000_u64}),
        json!({"expires_at": "2026-01-01T12:00:00Z"}),
        json!({"expires_at": "2040-01-01T12:00:00Z"}),
        json!({"expires_at": "soon"}),
        json!({"expires_at": null}),
        json!({"expires_at": "2027-01-01T12:00:00Z", "expires_in_ms": 5}),
    ];
    for more in wrong {
        let put = ask(&house, "PUT", PATH, &[], &calls(8, &more)).await;
        put.problem(400, "invalid");
    }
    assert_eq!(granted(&house).await, 7);
}
