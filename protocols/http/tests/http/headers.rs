//! Header fields, to the letter.

use std::time::Duration;

use serde_json::json;
use tidegate_http::Settings;

use crate::support::House;

#[tokio::test]
async fn an_answer_carries_policy_and_standing_of_every_limit() {
    let house = House::new();
    let request = json!({"policy": "chat", "key": "acme/alice", "cost": 4_000});
    let reply = house.post("/v1/check", request).await;
    assert_eq!(
        reply.header("ratelimit-policy"),
        Some(
            r#""daily";q=20000;tidegate-qu="units","tpm";q=6000;w=60;tidegate-qu="units";tidegate-burst=9000"#
        )
    );
    assert_eq!(
        reply.header("ratelimit"),
        Some(r#""daily";r=16000;t=43200,"tpm";r=5000;t=1"#)
    );
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(reply.header("x-ratelimit-limit"), None);
}

#[tokio::test]
async fn a_refusal_says_in_whole_seconds_when_it_is_not_too_early() {
    let house = House::new();
    let request = json!({"policy": "web", "key": "alice"});
    for _ in 0..3 {
        house.post("/v1/check", request.clone()).await;
    }
    for (step, retry_after) in [(0, "20"), (1, "20"), (999_999, "19"), (18_999_999, "1")] {
        house.time.advance(Duration::from_micros(step));
        let reply = house.post("/v1/check", request.clone()).await;
        assert_eq!(reply.status, 429);
        assert_eq!(reply.header("retry-after"), Some(retry_after));
        let standing = format!(r#""rpm";r=0;t={retry_after}"#);
        assert_eq!(reply.header("ratelimit"), Some(standing.as_str()));
        assert_eq!(reply.header("ratelimit-policy"), Some(r#""rpm";q=3;w=60"#));
    }
}

/// Body and header are of one answer; the instants are exact.
#[tokio::test]
async fn a_refusal_by_a_policy_with_jitter_says_later_and_not_too_early() {
    let text = "[policy.p]\njitter = '40s'\nlimits.rpm = { calls = 1, per = '20s' }";
    let house = House::of(text, Settings::default());
    let request = json!({"policy": "p", "key": "k"});
    assert_eq!(house.post("/v1/check", request.clone()).await.status, 200);
    let mut waits = Vec::new();
    for _ in 0..20 {
        let reply = house.post("/v1/check", request.clone()).await;
        assert_eq!(reply.header("ratelimit"), Some(r#""rpm";r=0;t=20"#));
        let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
        let ms = reply.json()["retry_after_ms"].as_u64().unwrap();
        assert!((20_000..=60_000).contains(&ms), "{ms}");
        assert_eq!(seconds, ms.div_ceil(1_000));
        waits.push(ms);
    }
    assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
}

#[tokio::test]
async fn slots_are_concurrent_requests_and_say_no_time() {
    let house = House::new();
    let reply = house
        .post("/v1/acquire", json!({"policy": "jobs", "key": "k"}))
        .await;
    let policy = r#""running";q=1;qu="concurrent-requests""#;
    assert_eq!(reply.header("ratelimit-policy"), Some(policy));
    assert_eq!(reply.header("ratelimit"), Some(r#""running";r=0;t=30"#));
}

#[tokio::test]
async fn the_older_headers_are_there_on_request() {
    let house = House::new();
    let request = json!({"policy": "web", "key": "alice"});
    let reply = house
        .post("/v1/check?headers=legacy", request.clone())
        .await;
    let legacy = ["limit", "remaining", "reset"].map(|name| format!("x-ratelimit-{name}"));
    let values = legacy.each_ref().map(|name| reply.header(name));
    assert_eq!(values, [Some("3"), Some("2"), Some("20")]);
    assert!(reply.header("ratelimit").is_some());
    let reply = house
        .post("/v1/check?headers=standard", request.clone())
        .await;
    assert_eq!(reply.header("x-ratelimit-limit"), None);
    let reply = house
        .post("/v1/check?headers=modern", request.clone())
        .await;
    let detail = reply.problem(400, "invalid");
    assert_eq!(
        detail,
        "`headers=modern` is neither `standard` nor `legacy`"
    );
    house
        .post("/v1/check?header=legacy", request)
        .await
        .problem(400, "invalid");
}

#[tokio::test]
async fn the_older_headers_are_there_where_the_settings_say_so() {
    let house = House::with(Settings {
        legacy_headers: true,
        ..Settings::default()
    });
    let request = json!({"policy": "chat", "key": "acme/alice", "cost": 9_000});
    assert_eq!(house.post("/v1/check", request.clone()).await.status, 200);
    // Of two limits, the closest to exhaustion.
    let reply = house.post("/v1/peek", request).await;
    assert_eq!(reply.header("x-ratelimit-limit"), Some("9000"));
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(reply.header("x-ratelimit-reset"), Some("90"));
}
