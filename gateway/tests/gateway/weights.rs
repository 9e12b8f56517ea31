//! Tokens that count for more, or less, than one.

use tidegate_llm::{Costs, Weight, Weights};

use super::*;

const MILLION: u64 = 1_000_000;

fn weights(all: &[(&str, Weight)]) -> Costs {
    let all = all.iter().map(|(model, one)| ((*model).to_owned(), *one));
    Costs {
        weights: all.collect::<Weights>(),
        ..Costs::default()
    }
}

/// As Bedrock counts an answer of a newer Claude.
const FIVEFOLD: Weight = Weight {
    input: None,
    cache_read: None,
    cache_write: None,
    output: Some(5 * MILLION),
};

const LIMITS: &str = r#"
[policy.llm.limits]
tokens        = { rate = 10_000, per = "1h" }
input-tokens  = { rate = 10_000, per = "1h" }
output-tokens = { rate = 10_000, per = "1h" }
"#;

impl Running {
    async fn answers(&self, prompt: u64, completion: u64, bound: u64) {
        self.provider.next(Reply::answer(prompt, completion));
        let (status, _, body) = self.post("/v1/chat/completions", &chat(bound)).await;
        assert_eq!(status, 200, "{body}");
    }
}

#[tokio::test]
async fn tokens_count_by_their_weight_from_the_reservation_to_the_end() {
    let costs = weights(&[("gpt-5", FIVEFOLD)]);
    let running = run(LIMITS, |settings| settings.file_costs = costs).await;
    running.answers(100, 30, 500).await;
    running.settles_to("tokens", 10_000 - 100 - 150).await;
    running.settles_to("input-tokens", 9_900).await;
    running.settles_to("output-tokens", 9_850).await;
    // While a call is under way as much is taken as its bound counts.
    let before = running.left("output-tokens").await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(500);
    call["stream"] = true.into();
    let response = running.begin("/v1/chat/completions", &call).await;
    assert_eq!(running.left("output-tokens").await, before - 2_500);
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 7 } });
    events
        .send(format!("data: {usage}\n\ndata: [DONE]\n\n"))
        .await;
    drop(events);
    response.into_body().collect().await.unwrap();
    running.settles_to("output-tokens", before - 35).await;
    // Other models' tokens are tokens.
    running
        .gateway
        .exchange_costs(weights(&[("gpt-4o", FIVEFOLD)]));
    running.answers(100, 30, 500).await;
    running.settles_to("output-tokens", before - 35 - 30).await;
    running.stop().await;
}

/// A bound that counts five times is more than the limit ever grants, and locks nobody out.
#[tokio::test]
async fn a_weight_locks_nobody_out_of_a_small_limit() {
    let small = "[policy.llm.limits]\ntokens = { rate = 1_000, per = '1h' }";
    let costs = weights(&[("gpt-*", FIVEFOLD)]);
    let running = run(small, |settings| settings.file_costs = costs).await;
    running.answers(20, 30, 4_096).await;
    running.settles_to("tokens", 1_000 - 20 - 150).await;
    running.stop().await;
}

#[tokio::test]
async fn what_comes_out_of_a_cache_counts_by_its_weight_or_as_the_provider_counts_it() {
    let cached = async |provider: Dialect, costs: Costs| {
        let running = run(LIMITS, |settings| {
            settings.upstreams[0].provider = provider;
            settings.file_costs = costs;
        })
        .await;
        let usage = json!({
            "prompt_tokens": 1_001,
            "completion_tokens": 10,
            "prompt_tokens_details": { "cached_tokens": 501 },
        });
        let answer = json!({ "usage": usage }).to_string();
        running
            .provider
            .next(Reply::Answer(200, vec![], answer.into()));
        let (status, ..) = running.post("/v1/chat/completions", &chat(50)).await;
        assert_eq!(status, 200);
        running.settles_to("output-tokens", 9_990).await;
        let used = 10_000 - running.left("input-tokens").await;
        running.stop().await;
        used
    };
    let none = Costs::default;
    assert_eq!(cached(Dialect::OpenAi, none()).await, 1_001);
    assert_eq!(cached(Dialect::Groq, none()).await, 500);
    let tenth = Weight {
        cache_read: Some(MILLION / 10),
        ..Weight::default()
    };
    // 50.1, rounded up.
    let written = weights(&[("*", tenth)]);
    assert_eq!(cached(Dialect::OpenAi, written.clone()).await, 551);
    assert_eq!(cached(Dialect::Groq, written).await, 551);
}

/// A stream that outgrows what was taken for it takes more by the weight, too.
#[tokio::test]
async fn a_stream_that_outgrows_its_reservation_takes_more_by_the_weight() {
    let costs = weights(&[("*", FIVEFOLD)]);
    let running = run(LIMITS, |settings| {
        settings.upstreams[0].provider = Dialect::Anthropic;
        settings.file_costs = costs;
    })
    .await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(1_000);
    call["stream"] = true.into();
    let mut body = running.begin("/v1/messages", &call).await.into_body();
    // Of an answer of which nothing is known 512 tokens are taken.
    running.settles_to("output-tokens", 10_000 - 5 * 512).await;
    let delta = json!({ "type": "text_delta", "text": "word".repeat(1_100) });
    let event = json!({ "type": "content_block_delta", "index": 0, "delta": delta });
    events.send(format!("data: {event}\n\n")).await;
    body.frame().await.unwrap().unwrap();
    running
        .settles_to("output-tokens", 10_000 - 5 * 1_000)
        .await;
    drop((events, body));
    running.stop().await;
}
