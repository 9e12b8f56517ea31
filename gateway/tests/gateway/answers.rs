//! Answers that are not as they should be.

use super::failover::CHAT;
use super::*;

/// Each limit was charged for as many tokens as the smallest had paid for.
#[tokio::test]
async fn what_an_answer_does_not_say_is_charged_as_taken_of_each_limit() {
    let window = "per = '400d', algorithm = 'first_use_window'";
    let limits = format!(
        "[policy.llm.limits]\ntokens = {{ budget = 100_000, {window} }}\n\
         output-tokens = {{ budget = 10, {window} }}"
    );
    let running = run(&limits, |_| {}).await;
    let said = json!({ "usage": { "prompt_tokens": 9 } });
    let answer = Reply::Answer(200, vec![], said.to_string().into());
    running.provider.next(answer);
    assert_eq!(running.post(CHAT, &chat(512)).await.0, 200);
    running.settles_to("tokens", 100_000 - 9 - 512).await;
    assert_eq!(running.left("output-tokens").await, 0);
    running.stop().await;
}

/// It passed for an answer, and was charged as reserved.
#[tokio::test]
async fn an_upstream_that_redirects_is_told_and_costs_nothing() {
    for status in [301, 304, 307] {
        let running = run(POLICY, |_| {}).await;
        let reply = Reply::Answer(status, vec![], bytes::Bytes::new());
        let at = "https://elsewhere.example/v1";
        running.provider.next(reply.with("location", at));
        let (told, _, body) = running.post(CHAT, &chat(500)).await;
        assert_eq!(told, 502, "{body}");
        let message = body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("`one`") && message.contains(at),
            "{message}"
        );
        running.settles_to("tokens", 1_000).await;
        running.settles_to("running", 4).await;
        running.stop().await;
    }
    let running = run(&in_order(TOKENS), |_| {}).await;
    let reply = Reply::Answer(308, vec![], bytes::Bytes::new());
    running.provider.next(reply);
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.chat().await, 200);
    assert_eq!(running.members(), ["one", "two"]);
    running.stop().await;
}

#[tokio::test]
async fn where_a_file_is_found_is_the_callers_to_follow() {
    let running = run(POLICY, |_| {}).await;
    let reply = Reply::Answer(302, vec![], bytes::Bytes::new());
    running
        .provider
        .next(reply.with("location", "https://files.example/7"));
    let request = http::Request::get("/v1/files/7/content");
    let answer = running.send(request, "").await;
    assert_eq!(answer.status(), 302);
    assert_eq!(answer.headers()["location"], "https://files.example/7");
    running.stop().await;
}

/// The call was held for as long as a stream may pause: five minutes, and went nowhere else.
#[tokio::test]
async fn an_error_whose_body_does_not_come_is_one_by_its_head() {
    let running = run(&in_order(TOKENS), |_| {}).await;
    let events = running.provider.next(Reply::endless(500));
    running.provider.next(Reply::answer(10, 10));
    let answered = tokio::time::timeout(Duration::from_secs(100), running.chat()).await;
    assert_eq!(answered.expect("long before"), 200);
    assert_eq!(running.members(), ["one", "two"]);
    drop(events);
    running.stop().await;
}

/// It was cut behind as many bytes as `Content-Length` said (RFC 9112, section 6.3).
#[tokio::test]
async fn an_answer_that_says_two_lengths_passes_whole() {
    let usage = r#"{"usage":{"prompt_tokens":12,"completion_tokens":30}}"#;
    let at = provider::says(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\
         transfer-encoding: chunked\r\n\r\n{:x}\r\n{usage}\r\n0\r\n\r\n",
        usage.len()
    ))
    .await;
    let base = format!("http://{at}").parse().unwrap();
    let running = run(POLICY, |settings| settings.upstreams[0].base = base).await;
    let answer = running.begin(CHAT, &chat(500)).await;
    assert_eq!(answer.headers().get("content-length"), None);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, usage);
    running.settles_to("tokens", 1_000 - 42).await;
    running.stop().await;
}

/// The connection was gone.
#[tokio::test]
async fn an_answer_that_has_no_body_and_says_a_length_passes() {
    for status in ["304 Not Modified", "204 No Content"] {
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 10\r\n\r\n");
        let at = provider::says(answer).await;
        let base = format!("http://{at}").parse().unwrap();
        let running = run(POLICY, |settings| settings.upstreams[0].base = base).await;
        let request = http::Request::get("/v1/models");
        let answered = running.send(request, "").await.status();
        assert!(status.starts_with(answered.as_str()), "{answered}");
        running.stop().await;
    }
}

/// What was longer than is kept was charged as reserved, though it says its usage at its end.
#[tokio::test]
async fn a_long_answer_is_charged_what_it_says_at_its_end() {
    let running = run(POLICY, |_| {}).await;
    let audio = "QUJD".repeat(9 * 256 * 1_024);
    // A tool's arguments stand in it as a model has made them.
    let answer = format!(
        r#"{{"choices":[{{"audio":"{audio}","args":{{"usage":{{"prompt_tokens":1}}}}}}],"usage":{{"prompt_tokens":12,"completion_tokens":30}},"id":"a"}}"#
    );
    running
        .provider
        .next(Reply::Answer(200, vec![], answer.clone().into()));
    let answered = running.begin(CHAT, &chat(500)).await;
    let body = answered.into_body().collect().await.unwrap().to_bytes();
    assert!(body == answer, "it passes whole");
    running.settles_to("tokens", 1_000 - 42).await;
    running.stop().await;
}

/// It was taken for one object, whose usage is nowhere: charged as reserved.
#[tokio::test]
async fn a_stream_is_one_however_its_type_is_written() {
    let running = run(POLICY, |_| {}).await;
    let events = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":2}}\n\n\
        data: [DONE]\n\n";
    let reply = Reply::Answer(200, vec![], events.into());
    running
        .provider
        .next(reply.with("content-type", "Text/Event-Stream ;charset=utf-8"));
    let mut call = chat(500);
    call["stream"] = true.into();
    call["stream_options"] = json!({ "include_usage": true });
    assert_eq!(running.post(CHAT, &call).await.0, 200);
    running.settles_to("tokens", 990).await;
    running.stop().await;
}
