//! Other policies, sent to a server.

use std::sync::{Arc, Mutex, mpsc};

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tidegate_http::{Application, Server, Settings};
use tidegate_service::{Scope, Service};

use crate::support::{House, Reply};

/// A house that goes over to what is sent, and what was sent.
fn house() -> (House, Arc<Mutex<Vec<Application>>>) {
    let sent = Arc::<Mutex<Vec<Application>>>::default();
    let mut house = House::new();
    let (service, notes): (Service, _) = (house.service.clone(), Arc::clone(&sent));
    let settings = Settings {
        apply: Some(Arc::new(move |application| {
            let changes = service.exchange(&application.by, &application.policies);
            notes.lock().unwrap().push(application);
            changes.map_err(|error| error.to_string())
        })),
        ..Settings::default()
    };
    house.server = Server::new(house.service.clone(), settings);
    (house, sent)
}

async fn put(house: &House, token: &str, kind: &str, text: &str) -> Reply {
    let request = Request::put("/v1/policies")
        .header("content-type", kind)
        .header("authorization", format!("Bearer {token}"));
    house
        .send(request.body(Body::from(text.to_owned())).unwrap())
        .await
}

#[tokio::test]
async fn policies_are_gone_over_to_in_every_language() {
    let (house, sent) = house();
    for (kind, text, calls) in [
        (
            "application/toml",
            "[policy.web.limits]\nrpm = { calls = 5, per = '1m' }\n",
            5,
        ),
        (
            "application/yaml",
            "policy:\n  web:\n    limits:\n      rpm: {calls: 6, per: 1m}\n",
            6,
        ),
        (
            "application/json; charset=utf-8",
            r#"{"policy":{"web":{"limits":{"rpm":{"calls":7,"per":"1m"}}}}}"#,
            7,
        ),
    ] {
        let reply = put(&house, "any", kind, text).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let shown = house.get("/v1/policies/web").await.json();
        assert_eq!(shown["limits"][0]["capacity"], calls);
        assert_eq!(sent.lock().unwrap().last().unwrap().text, text);
    }
    let text = "[policy.web.limits]\nrpm = { calls = 8, per = '1m' }\n";
    let reply = put(&house, "any", "application/toml", text).await.json();
    assert_eq!(
        reply,
        json!({"changes": [{"policy": "web", "member": null, "limit": "rpm", "setting": "calls",
            "change": "raised", "was": "7", "becomes": "8",
            "effect": "from the next decision on; no request waits longer"}]})
    );
    let audit = house.get("/v1/audit").await.json();
    let told = audit["events"].as_array().unwrap();
    let applied = |one: &&serde_json::Value| one["action"] == "apply_policies";
    assert_eq!(told.iter().filter(applied).count(), 4, "{audit}");
    let raised =
        "~ limit web.rpm: calls 7 -> 8 (from the next decision on; no request waits longer)";
    assert_eq!(told[3]["details"], json!([raised]));
}

/// They were applied, and no event told of it.
#[tokio::test]
async fn policies_that_are_applied_for_a_client_that_hangs_up_leave_their_event() {
    let mut house = House::new();
    let service = house.service.clone();
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
    let (go_on, goes_on) = mpsc::sync_channel::<()>(1);
    let (done, mut is_done) = tokio::sync::mpsc::channel(1);
    let goes_on = Mutex::new(goes_on);
    let settings = Settings {
        apply: Some(Arc::new(move |application: Application| {
            begun.blocking_send(()).unwrap();
            goes_on.lock().unwrap().recv().unwrap();
            let changes = service.exchange(&application.by, &application.policies);
            done.blocking_send(()).unwrap();
            changes.map_err(|error| error.to_string())
        })),
        ..Settings::default()
    };
    house.server = Server::new(house.service.clone(), settings);
    let text = "[policy.web.limits]\nrpm = { calls = 5, per = '1m' }\n";
    tokio::select! {
        // Its request is dropped with it, as that of a client that hangs up.
        reply = put(&house, "any", "application/toml", text) => panic!("{}", reply.text()),
        begun = has_begun.recv() => begun.unwrap(),
    }
    go_on.send(()).unwrap();
    is_done.recv().await.unwrap();
    let shown = house.get("/v1/policies/web").await.json();
    assert_eq!(shown["limits"][0]["capacity"], 5);
    let audit = house.get("/v1/audit").await.json();
    let told = audit["events"].as_array().unwrap();
    let actions: Vec<_> = told.iter().map(|one| &one["action"]).collect();
    assert_eq!(actions, ["apply_policies"], "{audit}");
}

#[tokio::test]
async fn what_is_shown_can_be_sent_again_and_changes_nothing() {
    let (house, _) = house();
    let all = house.get("/v1/policies").await.json();
    let policies = all["policies"].as_array().unwrap().iter();
    let written = policies.map(|policy| {
        let name = policy["name"].as_str().unwrap().to_owned();
        (name, policy["written"].clone())
    });
    let document = json!({"policy": written.collect::<serde_json::Map<_, _>>()});
    let reply = put(&house, "any", "application/json", &document.to_string()).await;
    assert_eq!(reply.json(), json!({"changes": []}));
}

#[tokio::test]
async fn faulty_policies_are_refused_whole_with_every_fault() {
    let (house, sent) = house();
    let text = "[policy.web.limits]\nrpm = { calls = 0, per = '1m' }\n[policy.b]\nlimts = {}\n";
    let problem = put(&house, "any", "application/toml", text).await;
    let told = problem.problem(400, "invalid");
    assert_eq!(told, "the policies have 2 faults, and nothing was changed");
    let text = "[policy.web.limits]\nrpm = { calls = 0, per = '1m' }\n";
    let one = put(&house, "any", "application/toml", text).await;
    let told = one.problem(400, "invalid");
    assert_eq!(told, "the policies have a fault, and nothing was changed");
    let problem = problem.json();
    let faults = problem["faults"].as_array().unwrap();
    let lines: Vec<_> = faults
        .iter()
        .map(|fault| fault["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [2, 4]);
    assert!(
        faults[0]["help"]
            .as_str()
            .unwrap()
            .starts_with("write 1 to")
    );
    assert!(sent.lock().unwrap().is_empty());
    put(&house, "any", "application/x-www-form-urlencoded", text)
        .await
        .problem(415, "unsupported_media_type");
    let long = " ".repeat((1 << 20) + 1);
    put(&house, "any", "application/toml", &long)
        .await
        .problem(413, "too_large");
}

#[tokio::test]
async fn only_who_may_administer_everything_applies_policies() {
    let (house, sent) = house();
    house.lock(&[
        ("decider", &[Scope::Decide, Scope::Observe], &[]),
        ("some", &[Scope::Administer], &["web"]),
        ("root", &[Scope::Administer], &[]),
    ]);
    let text = "[policy.web.limits]\nrpm = { calls = 5, per = '1m' }\n";
    let send = async |token: &str| put(&house, token, "application/toml", text).await;
    let told = send("guess").await.problem(401, "unauthenticated");
    assert!(
        told.starts_with("the token that was sent is not known"),
        "{told}"
    );
    send("decider").await.problem(403, "forbidden");
    send("some").await.problem(403, "forbidden");
    assert!(sent.lock().unwrap().is_empty());
    assert_eq!(send("root").await.status, 200);
    assert_eq!(sent.lock().unwrap()[0].by, "root");
}

#[tokio::test]
async fn a_server_that_has_policies_from_its_file_alone_says_so() {
    let house = House::new();
    let text = "[policy.web.limits]\nrpm = { calls = 5, per = '1m' }\n";
    let problem = put(&house, "any", "application/toml", text).await;
    let problem = problem.problem(404, "not_found");
    assert!(problem.contains("--applied"));
}
