//! What the gateway adds to a stream's call, and where it does not.

use serde_json::{Value, json};
use tidegate_llm::Provider as Dialect;

use super::{POLICY, Reply, chat, run};

const CHAT: &str = "/v1/chat/completions";

fn stream() -> Value {
    let mut call = chat(100);
    call["stream"] = true.into();
    call
}

fn sent(body: &str) -> Value {
    serde_json::from_str(body).unwrap()
}

#[tokio::test]
async fn a_provider_that_says_its_usage_by_itself_is_sent_what_the_caller_sent() {
    let running = run(POLICY, |settings| {
        settings.upstreams[0].provider = Dialect::Mistral;
    })
    .await;
    let events = running.provider.next(Reply::stream());
    let response = running.begin(CHAT, &stream()).await;
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":2}}\n\n";
    events.send(usage.into()).await;
    drop(events);
    let body = http_body_util::BodyExt::collect(response.into_body()).await;
    assert_eq!(body.unwrap().to_bytes(), usage, "nothing is taken out");
    assert_eq!(running.provider.seen()[0].body, stream().to_string());
    running.settles_to("tokens", 990).await;
    running.stop().await;
}

#[tokio::test]
async fn a_provider_that_refuses_what_was_added_is_asked_once_more_without_it() {
    let running = run(POLICY, |_| {}).await;
    let unknown = json!({ "error": { "message": "Unknown parameter: 'stream_options'." } });
    running
        .provider
        .next(Reply::refusal(400, &unknown.to_string()));
    let events = running.provider.next(Reply::stream());
    drop(events);
    let response = running.begin(CHAT, &stream()).await;
    assert_eq!(response.status(), 200);
    let seen = running.provider.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(sent(&seen[0].body)["stream_options"]["include_usage"], true);
    assert_eq!(seen[1].body, stream().to_string());
    drop(response);
    // One call of the caller's, one of its limit's.
    running.settles_to("running", 4).await;
    assert_eq!(running.left("requests").await, 99);
    running.stop().await;
}

#[tokio::test]
async fn a_refusal_of_what_the_caller_wrote_passes() {
    let running = run(POLICY, |_| {}).await;
    let other = json!({ "error": { "message": "Unknown parameter: 'tool'." } });
    let named = json!({ "error": { "message": "Unknown parameter: 'stream_options'." } });
    running
        .provider
        .next(Reply::refusal(400, &other.to_string()));
    assert_eq!(running.post(CHAT, &stream()).await.2, other);
    let mut asks = stream();
    asks["stream_options"] = json!({ "include_usage": true });
    running
        .provider
        .next(Reply::refusal(400, &named.to_string()));
    assert_eq!(running.post(CHAT, &asks).await.2, named);
    for _ in 0..2 {
        running
            .provider
            .next(Reply::refusal(422, &named.to_string()));
    }
    assert_eq!(
        running.post(CHAT, &stream()).await.2,
        named,
        "once more, and not again"
    );
    assert_eq!(running.provider.seen().len(), 4);
    running.stop().await;
}
