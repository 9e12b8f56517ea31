//! Calls that take nothing of the limits at hand.

use super::learnt::with_secrets;
use super::*;

const TOKENS: &str = "[policy.llm.limits]\ntokens = { rate = 1000, per = '1h' }";

impl Running {
    async fn get(&self, path: &str) -> StatusCode {
        let request = http::Request::get(path);
        self.send(request, "").await.status()
    }
}

/// Each was refused with 400: "the request takes nothing".
#[tokio::test]
async fn a_call_without_tokens_passes_where_limits_count_nothing_else() {
    let running = run(TOKENS, |settings| settings.only_counted = true).await;
    running.provider.next(Reply::answer(0, 0));
    assert_eq!(running.get("/v1/models").await, 200);
    running.provider.next(Reply::answer(0, 0));
    let counting = "/v1/messages/count_tokens";
    assert_eq!(running.post(counting, &chat(5)).await.0, 200);
    let seen = running.provider.seen();
    let paths: Vec<&str> = seen.iter().map(|seen| &*seen.path).collect();
    assert_eq!(paths, ["/one/v1/models", "/one/v1/messages/count_tokens"]);
    assert_eq!(running.left("tokens").await, 1_000);
    running.stop().await;
    let running = run(TOKENS, |_| {}).await;
    running.provider.next(Reply::answer(0, 0));
    let images = "/v1/images/generations";
    assert_eq!(running.post(images, &json!({})).await.0, 200);
    running.stop().await;
}

#[tokio::test]
async fn an_embedding_passes_where_answers_alone_are_limited() {
    let answers = "[policy.llm.limits]\noutput-tokens = { rate = 100, per = '1h' }";
    let running = run(answers, |_| {}).await;
    running.provider.next(Reply::answer(50, 0));
    let call = json!({ "model": "e", "input": "Hello" });
    assert_eq!(running.post("/v1/embeddings", &call).await.0, 200);
    assert_eq!(running.left("output-tokens").await, 100);
    // A bound of nothing that a provider does not keep to is charged all the same.
    running.provider.next(Reply::answer(10, 30));
    assert_eq!(running.post("/v1/chat/completions", &chat(0)).await.0, 200);
    running.settles_to("output-tokens", 70).await;
    running.stop().await;
}

#[tokio::test]
async fn a_model_that_costs_nothing_passes_where_money_is_limited() {
    let money =
        "[policy.llm.limits]\nusd = { budget = 10, per = 'day', zone = 'UTC', unit = '0.000001' }";
    let running = run(money, |settings| {
        settings.prices = [("gpt-5".to_owned(), Price::default())]
            .into_iter()
            .collect();
    })
    .await;
    running.provider.next(Reply::answer(10, 30));
    assert_eq!(running.post("/v1/chat/completions", &chat(50)).await.0, 200);
    assert_eq!(running.left("usd").await, 10_000_000);
    running.stop().await;
}

#[tokio::test]
async fn a_call_without_tokens_passes_a_queue_of_callers_and_learnt_limits() {
    let learnt = r#"
        [policy.llm]
        key = "account/caller"
        [policy.llm.limits]
        tokens = { rate = 1000, per = "1h", level = "account", learnt = true }
    "#;
    let running = run(learnt, |settings| {
        with_secrets(settings);
        settings.fair = true;
    })
    .await;
    running.provider.next(Reply::answer(0, 0));
    assert_eq!(running.get("/v1/models").await, 200);
    running.stop().await;
}

/// Of a pool, it goes to the first member that does not cool down.
#[tokio::test]
async fn a_call_without_tokens_goes_to_a_member_of_a_pool() {
    let pool = two_of(super::TOKENS);
    let running = run(&pool, |_| {}).await;
    let refusal = Reply::refusal(429, "{}").with("retry-after", "3600");
    running.provider.next(refusal);
    for _ in 0..2 {
        running.provider.next(Reply::answer(0, 0));
        assert_eq!(running.get("/v1/models").await, 200);
    }
    let seen = running.provider.seen();
    let paths: Vec<&str> = seen.iter().map(|seen| &*seen.path).collect();
    assert_eq!(
        paths,
        ["/one/v1/models", "/two/v1/models", "/two/v1/models"]
    );
    running.stop().await;
}
