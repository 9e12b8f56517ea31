//! Refusals say what an SDK's user has to know: how much, of what, how much is left, until when.

use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use tidegate_gateway::Settings;
use tidegate_llm::Price;

use super::{POLICY, Reply, Running, TOKENS, chat, in_order, run};

const CHAT: &str = "/v1/chat/completions";
const MONEY: &str =
    "[policy.llm.limits]\nusd = { budget = '0.01', per = 'day', zone = 'UTC', unit = '0.000001' }";

/// A model at 2 and 8 for a million tokens.
fn priced(settings: &mut Settings) {
    let price = Price {
        input: 2_000_000,
        output: 8_000_000,
        ..Price::default()
    };
    settings.prices = [("gpt-5".to_owned(), price)].into_iter().collect();
}

/// The status and the message of a refusal.
async fn refused(running: &Running, body: &Value) -> (u16, String) {
    let (status, _, answer) = running.post(CHAT, body).await;
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    (status.as_u16(), message.to_owned())
}

#[tokio::test]
async fn money_that_is_left_is_told_beside_what_the_call_may_cost() {
    let running = run(MONEY, priced).await;
    running.provider.next(Reply::answer(1_000, 500));
    assert_eq!(running.post(CHAT, &chat(900)).await.0, 200);
    // 1,000 at 2 millionths and 500 at 8.
    running.settles_to("usd", 4_000).await;
    let (status, message) = refused(&running, &chat(1_000)).await;
    assert_eq!(status, 429);
    let (cost, rest) = message.split_once(", and ").unwrap();
    let cost: f64 = cost
        .strip_prefix("this call may cost ")
        .unwrap()
        .parse()
        .unwrap();
    assert!((0.008..=0.01).contains(&cost), "{message}");
    let after = rest.strip_prefix("0.004000 of `usd` (policy `llm`) is left; try again in ");
    let (_, unit) = after.unwrap().rsplit_once(' ').unwrap();
    assert!(["h", "min", "s"].contains(&unit), "{message}");
    running.stop().await;
}

#[tokio::test]
async fn tokens_that_are_left_are_told_beside_what_the_call_may_use() {
    let running = run(POLICY, |_| {}).await;
    running.provider.next(Reply::answer(10, 900));
    assert_eq!(running.post(CHAT, &chat(900)).await.0, 200);
    running.settles_to("tokens", 90).await;
    let (status, message) = refused(&running, &chat(500)).await;
    assert_eq!(status, 429);
    assert!(
        message.starts_with("this call may use 5")
            && message.contains(" of `tokens` (policy `llm`) are left; try again in "),
        "{message}"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_prompt_that_is_too_much_for_good_is_told_what_it_is_taken_for() {
    let running = run(POLICY, |_| {}).await;
    let mut call = chat(10);
    call["messages"][0]["content"] = "word ".repeat(2_000).into();
    let (status, message) = refused(&running, &call).await;
    assert_eq!(status, 400);
    let tokens = message
        .strip_prefix("the prompt is estimated at ")
        .and_then(|rest| rest.split_once(' '))
        .unwrap();
    let (tokens, rest) = (tokens.0.parse::<u64>().unwrap(), tokens.1);
    assert!(tokens > 1_000, "{message}");
    assert_eq!(
        rest,
        "tokens, and limit `tokens` of policy `llm` never grants more than 1000: shorten it, or raise the limit"
    );
    running.stop().await;
    let running = run(MONEY, priced).await;
    call["messages"][0]["content"] = "word ".repeat(20_000).into();
    let (status, message) = refused(&running, &call).await;
    assert_eq!(status, 400);
    assert!(
        message.starts_with("the prompt alone costs 0.")
            && message.ends_with(
                ", and limit `usd` of policy `llm` never grants more than 0.010000: shorten it, or raise the limit"
            ),
        "{message}"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_body_without_a_model_is_told_so_where_money_is_counted() {
    let running = run(MONEY, priced).await;
    let (status, message) = refused(&running, &json!({ "messages": [] })).await;
    assert_eq!(status, 400);
    assert_eq!(
        message,
        "the body names no `model`, and the policy counts money, which is by the model"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_pool_that_cools_down_is_told_for_how_long() {
    let running = run(&in_order(TOKENS), |settings| settings.wait = Duration::ZERO).await;
    for _ in 0..2 {
        let refusal = Reply::refusal(429, "{}").with("retry-after", "600");
        running.provider.next(refusal);
    }
    running.post(CHAT, &chat(50)).await;
    let (status, headers, body) = running.post(CHAT, &chat(50)).await;
    assert_eq!(status, 429);
    assert_eq!(headers["x-tidegate-refused"], "limit");
    let after: u64 = headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((500..=600).contains(&after), "{after}: {body}");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("no member of policy `llm` is asked now"),
        "{message}"
    );
    running.stop().await;
}

/// A caller cannot tell by the status who refuses: a provider's 429 is passed on as it is.
#[tokio::test]
async fn a_refusal_of_the_gateways_own_says_so_and_why() {
    let running = run(POLICY, |_| {}).await;
    let reason = |headers: &HeaderMap| {
        let reason = headers.get("x-tidegate-refused");
        reason.map(|reason| reason.to_str().unwrap().to_owned())
    };
    // A provider that is a gateway, too, says it of itself.
    let answer = Reply::answer(10, 990).with("x-tidegate-refused", "store");
    running.provider.next(answer);
    let (status, headers, _) = running.post(CHAT, &chat(900)).await;
    assert_eq!((status.as_u16(), reason(&headers)), (200, None));
    running.settles_to("tokens", 0).await;
    let (status, headers, _) = running.post(CHAT, &chat(900)).await;
    let limit = Some("limit".to_owned());
    assert_eq!((status.as_u16(), reason(&headers)), (429, limit));
    let mut long = chat(10);
    long["messages"][0]["content"] = "word ".repeat(2_000).into();
    let (status, headers, _) = running.post(CHAT, &long).await;
    let never = Some("never".to_owned());
    assert_eq!((status.as_u16(), reason(&headers)), (400, never));
    running.stop().await;
    let priced = run(MONEY, priced).await;
    let (status, headers, _) = priced.post(CHAT, &json!({ "messages": [] })).await;
    let invalid = Some("invalid".to_owned());
    assert_eq!((status.as_u16(), reason(&headers)), (400, invalid));
    priced.stop().await;
}
