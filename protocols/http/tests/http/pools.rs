//! Pools, words, levels and shadows, as JSON.

use serde_json::{Value, json};
use tidegate_http::Settings;

use crate::support::House;

const POLICIES: &str = "[policy.chat]\nbalancer = 'first_available'\n\
    [policy.chat.member.eu]\nmetadata = { region = 'eu-west', account = 'a1' }\ncool_down = '30s'\n\
    limits.rpm = { calls = 2, per = '1h' }\nlimits.slots = { concurrency = 2 }\n\
    [policy.chat.member.us]\nlimits.rpm = { calls = 2, per = '1h' }\nlimits.slots = { concurrency = 2 }\n\
    [policy.shady]\nshadow = true\nmetadata = { owner = 'ops' }\nlimits.slots = { concurrency = 1 }\n\
    [policy.deep]\nkey = 'org/user'\nlimits.all = { calls = 1, per = '1h', level = 'org' }\n";

fn house() -> House {
    House::of(POLICIES, Settings::default())
}

async fn said(house: &House, verb: &str, body: Value) -> (u16, Value) {
    let reply = house.post(&format!("/v1/{verb}"), body).await;
    (reply.status, reply.json())
}

#[tokio::test]
async fn a_grant_names_its_member_and_brings_its_words() {
    let house = house();
    let (status, granted) = said(&house, "acquire", json!({"policy": "chat", "key": "k"})).await;
    assert_eq!((status, &granted["member"]), (200, &json!("eu")));
    assert_eq!(
        granted["lease"]["metadata"],
        json!({"region": "eu-west", "account": "a1"})
    );
    let ended = json!({"policy": "chat", "key": "k", "lease": granted["lease"]["id"],
        "outcome": "dropped"});
    let (status, ended) = said(&house, "settle", ended).await;
    assert_eq!((status, &ended["member"]), (200, &json!("eu")));
    assert_eq!(ended["cooling_until"], "2026-01-01T12:00:30Z");
    let (_, granted) = said(&house, "acquire", json!({"policy": "chat", "key": "k"})).await;
    assert_eq!(granted["member"], "us");
    let ended = json!({"policy": "chat", "key": "k", "lease": granted["lease"]["id"],
        "cool_down_ms": 5_000});
    let (_, ended) = said(&house, "release", ended).await;
    assert_eq!(ended["cooling_until"], "2026-01-01T12:00:05Z");
    let (status, refused) = said(&house, "acquire", json!({"policy": "chat", "key": "k"})).await;
    assert_eq!(
        (status, &refused["not_until"]),
        (429, &json!("2026-01-01T12:00:05Z"))
    );
    assert_eq!(refused["member"], "us");
}

#[tokio::test]
async fn a_debit_names_its_member_and_a_forecast_may() {
    let house = house();
    let amounts = json!({"rpm": 2, "slots": 0});
    let (status, problem) = said(
        &house,
        "debit",
        json!({"policy": "chat", "key": "k", "amounts": amounts}),
    )
    .await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid")));
    assert!(problem["detail"].as_str().unwrap().contains("`eu`, `us`"));
    let at =
        |member: &str| json!({"policy": "chat", "key": "k", "member": member, "amounts": amounts});
    assert_eq!(said(&house, "debit", at("asia")).await.0, 400);
    assert_eq!(said(&house, "debit", at("eu")).await.0, 200);
    let (_, foreseen) = said(&house, "forecast", json!({"policy": "chat", "key": "k"})).await;
    assert_eq!(foreseen["members"]["eu"]["limits"]["rpm"]["spendable"], 0);
    assert_eq!(foreseen["members"]["us"]["limits"]["rpm"]["spendable"], 2);
    let (_, foreseen) = said(
        &house,
        "forecast",
        json!({"policy": "chat", "key": "k", "member": "eu"}),
    )
    .await;
    assert_eq!(foreseen["limits"]["rpm"]["spendable"], 0);
    let (_, peeked) = said(&house, "peek", at("eu")).await;
    assert_eq!(peeked["admitted"], false);
}

/// It was told as if the policy had no members, and not which of them it was about.
#[tokio::test]
async fn a_forecast_names_the_member_that_alone_could_serve_the_ask() {
    let policy = "[policy.chat.member.eu]\nlimits.rpm = { calls = 2, per = '1h' }\n\
        [policy.chat.member.us]\nlimits.rpm = { calls = 2, per = '1h' }\n\
        limits.tpm = { rate = 9, per = '1h' }\n";
    let house = House::of(policy, Settings::default());
    let request = json!({"policy": "chat", "key": "k", "amounts": {"tpm": 3}});
    let (_, foreseen) = said(&house, "forecast", request).await;
    assert_eq!(foreseen["limits"], json!({}));
    assert_eq!(foreseen["members"]["us"]["limits"]["tpm"]["spendable"], 3);
}

#[tokio::test]
async fn what_makes_no_sense_without_a_pool_is_told() {
    let house = house();
    let (_, granted) = said(&house, "acquire", json!({"policy": "shady", "key": "k"})).await;
    let end = |more: Value| {
        let mut body = json!({"policy": "shady", "key": "k", "lease": granted["lease"]["id"]});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    for more in [
        json!({"cool_down_ms": 5}),
        json!({"cool_down_ms": 0}),
        json!({"outcome": "lost"}),
        json!({"outcome": null}),
    ] {
        assert_eq!(said(&house, "release", end(more)).await.0, 400);
    }
    assert_eq!(
        said(&house, "release", end(json!({"outcome": "ignored"})))
            .await
            .0,
        200
    );
}

#[tokio::test]
async fn a_shadow_refuses_nobody_and_says_so() {
    let house = house();
    let request = json!({"policy": "shady", "key": "k"});
    let (_, first) = said(&house, "acquire", request.clone()).await;
    assert_eq!(
        (&first["shadowed"], &first["lease"]["metadata"]),
        (&json!(false), &json!({"owner": "ops"}))
    );
    let (status, second) = said(&house, "acquire", request).await;
    assert_eq!((status, &second["shadowed"]), (200, &json!(true)));
}

#[tokio::test]
async fn a_refusal_names_the_level() {
    let house = house();
    let request = |key: &str| json!({"policy": "deep", "key": key});
    assert_eq!(said(&house, "check", request("acme/a")).await.0, 200);
    let (status, refused) = said(&house, "check", request("acme/b")).await;
    assert_eq!((status, &refused["level"]), (429, &json!("org")));
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .starts_with("refused by all of the org; retry at 20")
    );
}

#[tokio::test]
async fn a_pool_is_shown_with_its_members_and_as_it_was_written() {
    let house = house();
    let shown = house.get("/v1/policies/chat").await.json();
    assert_eq!(shown["balancer"], "first_available");
    assert_eq!(shown["members"][0]["name"], "eu");
    assert_eq!(shown["members"][0]["cool_down_ms"], 30_000);
    assert_eq!(shown["members"][1]["limits"][0]["name"], "rpm");
    assert_eq!(
        shown["written"]["member"]["eu"]["limits"]["rpm"],
        json!({"calls": 2, "per": "1h"})
    );
}
