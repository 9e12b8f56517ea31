//! What metrics say of calls.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::learnt::{LEARNT, said, with_secrets};
use super::{BodyExt, Price, Reply, chat, run};

const CHAT: &str = "/v1/chat/completions";
const KEY: &str = "key=\"credential-f3abf2a6cc4f0098\"";
const SMALL: &str = r#"
[policy.llm.limits]
tokens  = { rate = 1000, per = "1h" }
running = { concurrency = 4, ttl = "1m" }
"#;

/// Keeps the metrics of this thread for the rest of a test.
fn record() -> (PrometheusHandle, impl Drop) {
    let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
    (
        recorder.handle(),
        metrics::set_default_local_recorder(recorder),
    )
}

/// The value of the metric whose line has all of these.
fn value(metrics: &PrometheusHandle, has: &[&str]) -> Option<f64> {
    let text = metrics.render();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let line = lines.find(|line| has.iter().all(|one| line.contains(one)))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[tokio::test]
async fn use_and_refusals_are_told_by_key_and_model() {
    let (metrics, _recording) = record();
    let running = run(SMALL, |_| {}).await;
    running.provider.next(Reply::answer(12, 588));
    assert_eq!(running.post(CHAT, &chat(600)).await.0, 200);
    running.settles_to("tokens", 400).await;
    assert_eq!(running.post(CHAT, &chat(600)).await.0, 429);
    let mut made_up = chat(600);
    made_up["model"] = "made up".into();
    assert_eq!(running.post(CHAT, &made_up).await.0, 429);
    let of = |name| value(&metrics, &[name, KEY, "model=\"gpt-5\""]);
    let tokens = "tidegate_gateway_tokens_total";
    let of_direction = |direction| value(&metrics, &[tokens, KEY, "model=\"gpt-5\"", direction]);
    assert_eq!(of_direction("direction=\"input\""), Some(12.0));
    assert_eq!(of_direction("direction=\"output\""), Some(588.0));
    assert_eq!(of("tidegate_gateway_calls_total"), Some(1.0));
    assert!(of("tidegate_gateway_waited_milliseconds_total").is_some());
    let refusals = "tidegate_gateway_refusals_total";
    let limit = "limit=\"tokens\"";
    assert_eq!(value(&metrics, &[refusals, KEY, limit, "gpt-5"]), Some(1.0));
    let refused = ["tidegate_gateway_refused_calls_total", "reason=\"limit\""];
    assert_eq!(value(&metrics, &refused), Some(2.0));
    let others = ["key=\"other\"", "model=\"other\""];
    assert_eq!(
        value(&metrics, &[refusals, limit, others[0], others[1]]),
        Some(1.0)
    );
    assert!(
        !metrics.render().contains("made up"),
        "a made-up name is no label"
    );
    running.stop().await;
}

#[tokio::test]
async fn what_holds_a_reservation_is_told_with_the_oldest() {
    let (metrics, _recording) = record();
    let running = run(SMALL, |_| {}).await;
    let held = || value(&metrics, &["tidegate_gateway_reserved_calls "]);
    let oldest = || {
        value(
            &metrics,
            &["tidegate_gateway_oldest_reservation_timestamp_seconds "],
        )
    };
    assert_eq!((held(), oldest()), (Some(0.0), Some(0.0)));
    let mut call = chat(100);
    call["stream"] = true.into();
    let first = running.provider.next(Reply::stream());
    let first_body = running.begin(CHAT, &call).await.into_body();
    let since_first = oldest().unwrap();
    assert!(since_first > 1.7e9);
    let second = running.provider.next(Reply::stream());
    let second_body = running.begin(CHAT, &call).await.into_body();
    assert_eq!((held(), oldest()), (Some(2.0), Some(since_first)));
    for (events, body) in [(first, first_body), (second, second_body)] {
        events.send("data: [DONE]\n\n".into()).await;
        drop(events);
        body.collect().await.unwrap();
    }
    running.settles_to("running", 4).await;
    assert_eq!((held(), oldest()), (Some(0.0), Some(0.0)));
    running.stop().await;
}

#[tokio::test]
async fn money_is_told_in_millionths() {
    let (metrics, _recording) = record();
    let money = r#"
        [policy.llm.limits]
        usd = { budget = 10, per = "day", zone = "UTC", unit = "0.000001" }
    "#;
    let price = Price {
        input: 2_000_000,
        output: 8_000_000,
        ..Price::default()
    };
    let running = run(money, |settings| {
        settings.prices = [("gpt-5".to_owned(), price)].into_iter().collect();
    })
    .await;
    running.provider.next(Reply::answer(1_000, 100));
    assert_eq!(running.post(CHAT, &chat(500)).await.0, 200);
    running.settles_to("usd", 10_000_000 - 2_800).await;
    let name = "tidegate_gateway_money_millionths_total";
    let told = value(&metrics, &[name, KEY, "model=\"gpt-5\""]);
    assert_eq!(told, Some(2_800.0));
    running.stop().await;
}

#[tokio::test]
async fn what_a_provider_says_of_its_limit_is_told_beside_ours() {
    let (metrics, _recording) = record();
    let running = run(LEARNT, with_secrets).await;
    let answer = said(Reply::answer(1, 1), ["700", "640"]);
    // A number that is none.
    running
        .provider
        .next(answer.with("x-ratelimit-limit-requests", "many"));
    assert_eq!(running.post(CHAT, &chat(10)).await.0, 200);
    running.settled().await;
    let of = |name: &str, limit: &str| {
        value(
            &metrics,
            &[&format!("{name}{{"), &format!("limit=\"{limit}\"")],
        )
    };
    assert_eq!(of("tidegate_gateway_provider_limit", "tokens"), Some(700.0));
    let remaining = of("tidegate_gateway_provider_remaining", "tokens");
    assert_eq!(remaining, Some(640.0));
    let ignored = value(&metrics, &["tidegate_gateway_ignored_headers_total "]);
    assert_eq!(ignored, Some(1.0));
    running.stop().await;
}
