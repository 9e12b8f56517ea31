//! What a caller is told whose call goes no further: what to change, and nothing of what is behind.

use super::failover::CHAT;
use super::store_away::Away;
use super::*;

/// What is said of an error.
fn message(body: &Value) -> &str {
    body["error"]["message"].as_str().unwrap_or_default()
}

/// It was no JSON, at column 1.
#[tokio::test]
async fn a_compressed_call_is_told_to_come_as_it_is() {
    let running = run(POLICY, |_| {}).await;
    let call = |encoding: &str, path: &str| {
        let request = http::Request::post(path).header("content-encoding", encoding);
        running.send(request, chat(10).to_string())
    };
    let refused = call("gzip", CHAT).await;
    assert_eq!(refused.status(), 415);
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert!(
        message(&body).contains("`gzip`") && message(&body).contains("without Content-Encoding"),
        "{body}"
    );
    for (encoding, path) in [("identity", CHAT), ("gzip", "/v1/files")] {
        running.provider.next(Reply::answer(10, 10));
        assert_eq!(
            call(encoding, path).await.status(),
            200,
            "{encoding} {path}"
        );
    }
    running.stop().await;
}

/// The address of the store, or what its driver says, went to callers, and not when to come again.
#[tokio::test]
async fn a_store_that_is_away_is_told_without_its_own_words() {
    let running = run_on(Arc::new(Away), POLICY, |_| {}).await;
    let (status, headers, body) = running.post(CHAT, &chat(10)).await;
    assert_eq!(
        (status.as_u16(), &headers["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    assert!(
        message(&body).contains("store") && !message(&body).contains("cable"),
        "{body}"
    );
    running.stop().await;
}

/// It was dropped, and the provider answered a GET.
#[tokio::test]
async fn a_web_socket_is_refused_in_words_and_other_upgrades_are_left_out() {
    let running = run(POLICY, |_| {}).await;
    let upgrade = |to: &str| {
        let request = http::Request::get("/v1/realtime?model=m");
        let request = request
            .header("connection", "upgrade")
            .header("upgrade", to);
        running.send(request, "")
    };
    let refused = upgrade("WebSocket").await;
    assert_eq!(refused.status(), 400);
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert!(message(&body).contains("WebSocket"), "{body}");
    assert!(running.provider.seen().is_empty());
    // What Java's client asks of any server.
    running.provider.next(Reply::answer(0, 0));
    assert_eq!(upgrade("h2c").await.status(), 200);
    assert_eq!(running.provider.seen()[0].header("upgrade"), "");
    running.stop().await;
}

/// Half of a surrogate pair is no text to Rust, and providers take it.
#[tokio::test]
async fn half_of_a_surrogate_pair_passes() {
    let running = run(POLICY, |_| {}).await;
    running.provider.next(Reply::answer(10, 10));
    let call = r#"{"model":"gpt-5","max_tokens":9,"messages":[{"content":"a\ud83d b \\ud800 \ud83d\ude00"}]}"#;
    let request = http::Request::post(CHAT);
    assert_eq!(running.send(request, call).await.status(), 200);
    assert_eq!(running.provider.seen()[0].body, call);
    running.settles_to("tokens", 980).await;
    running.stop().await;
}
