//! Namespaces, over HTTP: created, deleted, restored, purged and listed, and named by a header.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tidegate_memory::MemoryStore;

use crate::support::{House, Reply};

const PATH: &str = "/v1/namespaces";

async fn ask(house: &House, method: &str, path: &str, namespace: &str, body: Value) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    if !namespace.is_empty() {
        request = request.header("tidegate-namespace", namespace);
    }
    let body = match body {
        Value::Null => Body::empty(),
        body => {
            request = request.header("content-type", "application/json");
            Body::from(body.to_string())
        }
    };
    house.send(request.body(body).unwrap()).await
}

async fn with(names: &[&str]) -> House {
    let house = House::on(MemoryStore::default());
    for name in names {
        let created = house.post(PATH, json!({"name": name})).await;
        assert_eq!(created.status, 200, "{}", created.text());
    }
    house
}

/// How many calls of `web` are admitted.
async fn left(house: &House, namespace: &str) -> usize {
    let body = json!({"policy": "web", "key": "alice"});
    for admitted in 0.. {
        let reply = ask(house, "POST", "/v1/check", namespace, body.clone()).await;
        match reply.status {
            200 => {}
            429 => return admitted,
            _ => panic!("{}", reply.text()),
        }
    }
    unreachable!("it has an end")
}

#[tokio::test]
async fn a_namespace_is_created_asked_deleted_restored_and_purged() {
    let house = with(&["acme"]).await;
    assert_eq!((left(&house, "acme").await, left(&house, "").await), (3, 3));
    let noon = "2026-01-01T12:00:00Z";
    let shown = house.get("/v1/namespaces/acme").await.json();
    assert_eq!(
        shown,
        json!({"name": "acme", "version": shown["version"], "state": "active", "by": "anyone",
            "created_at": noon, "changed_at": noon})
    );
    let again = house.post(PATH, json!({"name": "acme"})).await;
    again.problem(412, "conflict");
    let one = "/v1/namespaces/acme";
    ask(&house, "POST", &format!("{one}/purge"), "", Value::Null)
        .await
        .problem(409, "in_use");
    let deleted = ask(
        &house,
        "DELETE",
        &format!("{one}?reason=why"),
        "",
        Value::Null,
    )
    .await;
    assert_eq!(deleted.json()["state"], "deleted");
    let body = json!({"policy": "web", "key": "alice"});
    let refused = ask(&house, "POST", "/v1/check", "acme", body.clone()).await;
    let refused = refused.problem(410, "namespace_deleted");
    assert!(
        refused.contains("the namespace `acme` is deleted"),
        "{refused}"
    );
    let restored = ask(&house, "POST", &format!("{one}/restore"), "", Value::Null).await;
    assert_eq!(restored.json()["state"], "active");
    assert_eq!(left(&house, "acme").await, 0, "it comes back whole");
    ask(&house, "DELETE", one, "", Value::Null).await;
    let soon = ask(&house, "POST", &format!("{one}/purge"), "", Value::Null).await;
    let soon = soon.problem(409, "in_use");
    assert!(soon.contains("purge it in 10 s"), "{soon}");
    house.time.advance(Duration::from_secs(10));
    let purged = ask(&house, "POST", &format!("{one}/purge"), "", Value::Null).await;
    assert_eq!(purged.json()["done"], true, "{}", purged.text());
    assert!(purged.json()["removed"].as_u64().unwrap() > 0);
    house.get(one).await.problem(404, "not_found");
    let unknown = ask(&house, "POST", "/v1/check", "acme", body).await;
    unknown.problem(404, "not_found");
    let audit = house.get("/v1/audit").await.json();
    let actions = audit["events"].as_array().unwrap().iter();
    let actions: Vec<_> = actions
        .map(|event| event["action"].as_str().unwrap())
        .collect();
    let told = ["create", "delete", "restore", "delete", "purge"];
    assert_eq!(actions, told.map(|verb| format!("{verb}_namespace")));
    assert_eq!(audit["events"][1]["reason"], "why");
}

#[tokio::test]
async fn namespaces_are_listed_in_pages_and_a_name_is_held_to_its_bounds() {
    let house = with(&["b", "a", "c"]).await;
    let first = house.get("/v1/namespaces?limit=2").await.json();
    let names = |page: &Value| -> Vec<String> {
        let items = page["namespaces"].as_array().unwrap().iter();
        items
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&first), ["a", "b"]);
    let cursor = first["cursor"].as_str().unwrap();
    let rest = house
        .get(&format!("/v1/namespaces?cursor={cursor}"))
        .await
        .json();
    assert_eq!(
        (names(&rest), &rest["cursor"]),
        (vec!["c".to_owned()], &Value::Null)
    );
    for name in ["", "default", "a b", "../a", "*"] {
        let refused = house.post(PATH, json!({"name": name})).await;
        refused.problem(400, "invalid");
    }
    for name in ["a b", "*", ""] {
        let body = json!({"policy": "web", "key": "alice"});
        let request = Request::post("/v1/check")
            .header("content-type", "application/json")
            .header("tidegate-namespace", name);
        let request = request.body(Body::from(body.to_string())).unwrap();
        house.send(request).await.problem(400, "invalid");
    }
    // As if it was not said.
    assert_eq!(left(&house, "default").await, 3);
    assert_eq!(left(&house, "").await, 0);
}

#[tokio::test]
async fn policies_are_applied_in_one_namespace_alone() {
    let house = with(&["a", "b"]).await;
    let text = "[policy.web.limits]\nrpm = { calls = 5, per = '1m' }\n";
    let put = |text: &'static str| {
        Request::put("/v1/policies")
            .header("content-type", "application/toml")
            .header("tidegate-namespace", "a")
            .body(Body::from(text))
            .unwrap()
    };
    let applied = house.send(put(text)).await;
    assert_eq!(applied.status, 200, "{}", applied.text());
    assert_eq!((left(&house, "a").await, left(&house, "b").await), (5, 3));
    let faulty = house.send(put("[policy.web.limits]\nrpm = {}\n")).await;
    faulty.problem(400, "invalid");
    let shown = ask(&house, "GET", "/v1/policies", "a", Value::Null)
        .await
        .json();
    assert_eq!(shown["policies"].as_array().unwrap().len(), 1);
    assert_eq!(left(&house, "").await, 3);
}

/// The first was taken: what a client had sent, where a proxy added its own behind it.
#[tokio::test]
async fn a_request_that_names_two_namespaces_is_refused() {
    let house = with(&["acme", "beta"]).await;
    let request = Request::post("/v1/check")
        .header("tidegate-namespace", "acme")
        .header("tidegate-namespace", "beta")
        .header("content-type", "application/json");
    let body = json!({"policy": "web", "key": "alice"});
    let sent = request.body(Body::from(body.to_string())).unwrap();
    let told = house.send(sent).await.problem(400, "invalid");
    assert!(told.contains("named twice"), "{told}");
}
