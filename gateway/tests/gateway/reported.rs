//! What users of other gateways have reported, and what happens here. `proof/README.md` has them all.

use http::StatusCode;
use serde_json::json;
use std::time::{Duration, Instant};

use super::{POLICY, Reply, Running, chat, run};

const CHAT: &str = "/v1/chat/completions";

async fn status(running: &Running, max_tokens: u64) -> StatusCode {
    running.post(CHAT, &chat(max_tokens)).await.0
}

/// One window counted both (LiteLLM #24677, #38523); calls were charged that tokens refused (aibrix); a
/// refused call emptied the bucket (Portkey).
#[tokio::test]
async fn calls_and_tokens_are_counted_apart_and_a_refusal_takes_of_neither() {
    let running = run(POLICY, |_| {}).await;
    running.provider.next(Reply::answer(10, 590));
    assert_eq!(status(&running, 600).await, 200);
    running.settles_to("tokens", 400).await;
    for _ in 0..50 {
        assert_eq!(status(&running, 600).await, 429, "the tokens refuse it");
    }
    assert_eq!(running.left("requests").await, 99);
    assert_eq!(running.left("tokens").await, 400);
    assert_eq!(running.left("running").await, 4);
    running.provider.next(Reply::answer(10, 90));
    assert_eq!(status(&running, 100).await, 200, "what fits passes");
    running.stop().await;
}

/// Keys were locked out for minutes (LiteLLM #18953).
#[tokio::test]
async fn after_the_time_that_a_refusal_names_a_call_passes() {
    // Ten a second.
    let slow = "[policy.llm.limits]\ntokens = { rate = 1000, per = '100s' }";
    let running = run(slow, |_| {}).await;
    running.provider.next(Reply::answer(10, 990));
    assert_eq!(status(&running, 1_000).await, 200);
    // However slow the machine is, one of them comes before there is room.
    let millis = loop {
        running.provider.next(Reply::answer(10, 20));
        let (status, headers, _) = running.post(CHAT, &chat(30)).await;
        if status == 429 {
            break headers["retry-after-ms"].to_str().unwrap().parse().unwrap();
        }
    };
    tokio::time::sleep(Duration::from_millis(millis)).await;
    assert_eq!(status(&running, 30).await, 200, "after {millis} ms");
    running.stop().await;
}

/// Each refusal made it later: keys were locked out for minutes (LiteLLM #18953).
#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "whoever is refused waits by a clock of its own"
)]
async fn a_refusal_makes_the_time_that_is_named_no_later() {
    let slow = "[policy.llm.limits]\ntokens = { rate = 1000, per = '10h' }";
    let running = run(slow, |_| {}).await;
    running.provider.next(Reply::answer(10, 990));
    assert_eq!(status(&running, 1_000).await, 200);
    let refused = async || {
        let asked = Instant::now();
        let (status, headers, _) = running.post(CHAT, &chat(500)).await;
        assert_eq!(status, 429);
        let millis = headers["retry-after-ms"].to_str().unwrap().parse().unwrap();
        let length = Duration::from_millis(millis);
        // No earlier, and no later, than what was named, but for what it was rounded by.
        (asked + length, Instant::now() + length)
    };
    let (_, first) = refused().await;
    for _ in 0..50 {
        let (named, _) = refused().await;
        assert!(named <= first + Duration::from_millis(1));
    }
    running.stop().await;
}

/// A wrong name of a model switched the limits off (Envoy AI Gateway).
#[tokio::test]
async fn a_model_that_nobody_knows_keeps_to_the_same_limits() {
    let running = run(POLICY, |settings| {
        settings.models = vec![("gpt-5".into(), "llm".into())];
    })
    .await;
    running.provider.next(Reply::answer(10, 890));
    let mut call = chat(900);
    call["model"] = "no such model".into();
    assert_eq!(running.post(CHAT, &call).await.0, 200);
    running.settles_to("tokens", 100).await;
    for model in ["no such model", "another", ""] {
        call["model"] = model.into();
        assert_eq!(running.post(CHAT, &call).await.0, 429, "{model:?}");
    }
    running.stop().await;
}

/// A change of the configuration forgot what was used (TensorZero).
#[tokio::test]
async fn policies_that_are_exchanged_keep_what_was_used() {
    let running = run(POLICY, |_| {}).await;
    running.provider.next(Reply::answer(10, 590));
    assert_eq!(status(&running, 600).await, 200);
    running.settles_to("tokens", 400).await;
    let raised = POLICY.replace("rate = 1000", "rate = 1200");
    let raised = tidegate_policy::parse("p.toml", &raised).unwrap();
    running.service.exchange("test", &raised).unwrap();
    let left = running.left("tokens").await;
    assert!((600..610).contains(&left), "600 of 1,200 are used: {left}");
    assert_eq!(running.left("requests").await, 99);
    running.stop().await;
}

/// Calls that passed through skipped budgets (Bifrost #2873).
#[tokio::test]
async fn what_is_not_counted_is_refused_where_only_counted_calls_pass() {
    let running = run(POLICY, |settings| settings.only_counted = true).await;
    for path in [
        "/v1/images/generations",
        "/v1/batches",
        "/v1/responses/compact",
    ] {
        let (status, _, body) = running.post(path, &json!({})).await;
        assert_eq!(status, 403);
        let message = body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains(path) && message.contains("--only-counted"),
            "{message}"
        );
    }
    assert!(running.provider.seen().is_empty(), "none was forwarded");
    assert_eq!(running.left("requests").await, 100);
    // What reads, and what counts a prompt's tokens, uses none.
    running.provider.next(Reply::answer(0, 0));
    let counted = running.post("/v1/messages/count_tokens", &json!({})).await;
    assert_eq!(counted.0, 200);
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(status(&running, 100).await, 200);
    running.stop().await;
}

/// 1,000 tokens might stream 1,200 (Envoy AI Gateway); what was used beyond a limit was forgotten at 0
/// (agentgateway).
#[tokio::test]
async fn what_a_stream_uses_beyond_its_reservation_is_debt() {
    let running = run(POLICY, |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(900);
    call["stream"] = true.into();
    let response = running.begin(CHAT, &call).await;
    let said =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":1200}}";
    events.send(format!("{said}\n\ndata: [DONE]\n\n")).await;
    drop(events);
    super::BodyExt::collect(response.into_body()).await.unwrap();
    running.settles_to("running", 4).await;
    running.settles_to("tokens", 0).await;
    let (refused, headers, _) = running.post(CHAT, &chat(100)).await;
    assert_eq!(refused, 429);
    let millis: u64 = headers["retry-after-ms"].to_str().unwrap().parse().unwrap();
    // 300 beyond the limit, and more than 100 for the next call, of 1,000 an hour.
    assert!(millis > 400 * 3_600 - 60_000, "{millis} ms");
    running.stop().await;
}

/// Asked for in Bifrost #4790.
#[tokio::test]
async fn slots_are_those_of_each_key() {
    let running = run(
        "[policy.llm.limits]\nrunning = { concurrency = 1, ttl = '1m' }",
        |_| {},
    )
    .await;
    let _stream = running.provider.next(Reply::stream());
    let mut call = chat(100);
    call["stream"] = true.into();
    let _held = running.begin(CHAT, &call).await;
    assert_eq!(status(&running, 100).await, 429, "its own slot is taken");
    running.provider.next(Reply::answer(1, 1));
    let other = http::Request::post(format!("http://{}{CHAT}", running.at))
        .header("authorization", "Bearer sk-other")
        .body(chat(100).to_string().into())
        .unwrap();
    let other = running.client.request(other).await.unwrap();
    assert_eq!(other.status(), 200, "another's is not");
    running.stop().await;
}
