//! For those who run it.

use std::sync::Arc;

use serde_json::json;
use tidegate_http::{Ready, Settings};

use crate::support::House;

#[tokio::test]
async fn health_is_always_there_and_readiness_as_it_was_said() {
    let ready = Ready::new(false);
    let house = House::with(Settings {
        ready: ready.clone(),
        ..Settings::default()
    });
    assert_eq!(house.get("/healthz").await.json(), json!({"status": "ok"}));
    house.get("/readyz").await.problem(503, "not_ready");
    ready.set(true);
    assert_eq!(
        house.get("/readyz").await.json(),
        json!({"status": "ready"})
    );
}

#[tokio::test]
async fn metrics_are_what_the_caller_renders() {
    let house = House::new();
    house.get("/metrics").await.problem(404, "not_found");
    let house = House::with(Settings {
        metrics: Some(Arc::new(|| "tidegate_up 1\n".to_owned())),
        ..Settings::default()
    });
    let reply = house.get("/metrics").await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (200, "tidegate_up 1\n")
    );
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(reply.header("content-type"), Some(kind));
}

#[tokio::test]
async fn policies_are_shown_as_they_are() {
    let house = House::new();
    let all = house.get("/v1/policies").await.json()["policies"].clone();
    let names: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["name"].clone())
        .collect();
    assert_eq!(names, ["chat", "jobs", "shady", "small", "strict", "web"]);
    let chat = house.get("/v1/policies/chat").await.json();
    let expected = json!({
        "name": "chat", "levels": ["org", "user"], "failure_mode": "deny",
        "max_keys": null, "max_waiting": null, "ttl_ms": null, "shadow": false, "metadata": {},
        "written": {
            "key": "org/user",
            "limits": {
                "tpm": {"rate": 6_000, "per": "1m", "burst": 9_000},
                "daily": {"budget": 20_000, "per": "day", "zone": "UTC", "level": "org"},
            },
        },
        "limits": [
            {
                "name": "tpm", "kind": "rate", "capacity": 6_000, "at_most": 9_000,
                "per": {"ms": 60_000}, "algorithm": "token_bucket", "level": null, "shadow": false,
            },
            {
                "name": "daily", "kind": "budget", "capacity": 20_000, "at_most": 20_000,
                "per": {"calendar": "day", "zone": "UTC"}, "algorithm": "fixed_window",
                "level": "org", "shadow": false,
            },
        ],
    });
    assert_eq!(chat, expected);
    let jobs = house.get("/v1/policies/jobs").await.json();
    assert_eq!(jobs["limits"][0]["per"], json!(null));
    house
        .get("/v1/policies/nowhere")
        .await
        .problem(404, "not_found");
    house.get("/v1/policies/%FF").await.problem(400, "invalid");
}
