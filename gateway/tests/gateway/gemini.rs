//! Gemini's answers, whole and in each of the two shapes of its streams, are settled for their tokens.

use super::*;

const LIMITS: &str = r#"
[policy.llm.limits]
tokens        = { budget = 1_000, per = "400d" }
input-tokens  = { budget = 1_000, per = "400d" }
output-tokens = { budget = 1_000, per = "400d" }
running       = { concurrency = 4, ttl = "1m" }
"#;

const WHOLE: &str = "/v1beta/models/gemini-3-pro:generateContent";
const STREAM: &str = "/v1beta/models/gemini-3-pro:streamGenerateContent";

async fn before_gemini() -> Running {
    let gemini = |settings: &mut Settings| settings.upstreams[0].provider = Dialect::Gemini;
    run(LIMITS, gemini).await
}

fn content() -> Value {
    json!({
        "contents": [{ "role": "user", "parts": [{ "text": "How high is the tide?" }] }],
        "generationConfig": { "maxOutputTokens": 400 },
    })
}

/// A part of an answer, of which so many tokens have come by then, and half as many thoughts.
fn part(text: &str, tokens: u64) -> Value {
    json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] }, "index": 0 }],
        "usageMetadata": {
            "promptTokenCount": 50,
            "cachedContentTokenCount": 20,
            "toolUsePromptTokenCount": 3,
            "candidatesTokenCount": tokens,
            "thoughtsTokenCount": tokens / 2,
            "totalTokenCount": 53 + tokens + tokens / 2,
        },
        "modelVersion": "gemini-3-pro",
    })
}

impl Running {
    async fn ask_gemini(&self, path: &str) -> http::Response<hyper::body::Incoming> {
        let request = http::Request::post(path).header("x-goog-api-key", "sk-test");
        self.send(request, content().to_string()).await
    }

    /// Until a prompt of 53 is charged and an answer of `output`.
    async fn settles_to_output(&self, output: u64) {
        self.settles_to("running", 4).await;
        self.settles_to("tokens", 1_000 - 53 - output).await;
        assert_eq!(self.left("input-tokens").await, 1_000 - 53);
        assert_eq!(self.left("output-tokens").await, 1_000 - output);
    }
}

#[tokio::test]
async fn a_whole_answer_of_gemini_is_settled_for_its_tokens() {
    let running = before_gemini().await;
    let answer = part("High", 8).to_string();
    running
        .provider
        .next(Reply::Answer(200, vec![], answer.clone().into()));
    let response = running.ask_gemini(WHOLE).await;
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, answer);
    // The answer and its thoughts; the prompt and a tool's.
    running.settles_to_output(12).await;
    running.stop().await;
}

#[tokio::test]
async fn a_stream_of_gemini_passes_as_it_comes_and_is_settled_for_its_last_event() {
    let running = before_gemini().await;
    let events = running.provider.next(Reply::stream());
    let response = running.ask_gemini(&format!("{STREAM}?alt=sse")).await;
    let seen = running.provider.seen().remove(0);
    assert_eq!(seen.path, format!("/one{STREAM}?alt=sse"));
    assert_eq!(seen.body, content().to_string(), "nothing is asked for");
    let mut body = response.into_body();
    for tokens in [2, 6, 20] {
        let event = format!("data: {}\r\n\r\n", part("on", tokens));
        events.send(event.clone()).await;
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame, event, "it comes before the next is sent");
    }
    assert_eq!(running.left("running").await, 3);
    drop(events);
    assert!(body.frame().await.is_none());
    running.settles_to_output(30).await;
    running.stop().await;
}

/// Without `alt=sse` a stream is one list. It was taken for an object that says nothing, and charged as
/// reserved.
#[tokio::test]
async fn a_stream_of_gemini_that_is_a_list_is_settled_for_its_last_part() {
    let running = before_gemini().await;
    let pieces = running.provider.next(Reply::pieces());
    let response = running.ask_gemini(STREAM).await;
    let mut body = response.into_body();
    for (before, tokens) in [("[", 2), (",\r\n", 6), (",\r\n", 20)] {
        let piece = format!("{before}{}", part("on", tokens));
        pieces.send(piece.clone()).await;
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame, piece, "it comes before the next is sent");
    }
    pieces.send("\n]\n".into()).await;
    drop(pieces);
    body.collect().await.unwrap();
    running.settles_to_output(30).await;
    running.stop().await;
}

#[tokio::test]
async fn a_list_of_gemini_that_its_caller_leaves_is_settled_for_what_it_has_said() {
    let running = before_gemini().await;
    let pieces = running.provider.next(Reply::pieces());
    let mut body = running.ask_gemini(STREAM).await.into_body();
    for (before, tokens) in [("[", 2), (",\n", 6)] {
        pieces.send(format!("{before}{}", part("on", tokens))).await;
        body.frame().await.unwrap().unwrap();
    }
    drop(body);
    pieces.gone().await;
    running.settles_to_output(9).await;
    running.stop().await;
}
