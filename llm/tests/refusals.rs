//! What each provider's refusals mean, by the bodies and headers that they send.

use http::{HeaderMap, HeaderName};
use tidegate_core::{Span, Timestamp};
use tidegate_llm::{Kind, Provider, Received, Refusal, Signals};

const NOW: Timestamp = Timestamp::from_micros(1_736_723_460_000_000);

fn refusal(provider: Provider, status: u16, lines: &[(&str, &str)], body: &str) -> Option<Refusal> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.insert(name, value.parse().unwrap());
    }
    let received = Received::new(NOW, &headers);
    let signals = Signals::read(provider, &headers, received);
    Refusal::of(
        provider,
        status,
        &headers,
        &signals,
        body.as_bytes(),
        received,
    )
}

#[track_caller]
fn means(refusal: Option<Refusal>, kind: Kind, after: Option<u64>, may_retry: bool) {
    let retry_after = after.map(Span::from_millis);
    let told = refusal.map(|told| (told.kind, told.retry_after, told.may_retry));
    assert_eq!(told, Some((kind, retry_after, may_retry)));
}

#[test]
fn what_somebody_has_given_up_on_may_have_been_carried_out() {
    for (status, may_have_run) in [
        (408, true),
        (409, false),
        (429, false),
        (500, false),
        (503, false),
        (504, true),
        (524, true),
    ] {
        let refusal = refusal(Provider::OpenAi, status, &[], "{}");
        assert_eq!(
            refusal.map(|refusal| refusal.may_have_run),
            Some(may_have_run),
            "{status}"
        );
    }
}

#[test]
fn a_rate_passes_and_money_that_is_spent_does_not() {
    let rate = r#"{"error":{"code":"rate_limit_exceeded","type":"tokens","message":"..."}}"#;
    let lines = [("retry-after-ms", "250"), ("retry-after", "1")];
    means(
        refusal(Provider::OpenAi, 429, &lines, rate),
        Kind::Rate,
        Some(250),
        true,
    );
    let spent = r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}"#;
    means(
        refusal(Provider::OpenAi, 429, &lines, spent),
        Kind::Spend,
        None,
        false,
    );
    let cap = r#"{"type":"error","error":{"type":"rate_limit_error",
        "details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    means(
        refusal(Provider::Anthropic, 429, &[], cap),
        Kind::Spend,
        None,
        false,
    );
}

#[test]
fn what_the_provider_says_of_retrying_counts() {
    let never = [("x-should-retry", "false"), ("retry-after", "3")];
    means(
        refusal(Provider::OpenAi, 429, &never, ""),
        Kind::Rate,
        Some(3_000),
        false,
    );
    means(
        refusal(Provider::OpenAi, 500, &never, ""),
        Kind::Failed,
        Some(3_000),
        false,
    );
}

#[test]
fn a_quota_of_a_day_is_not_asked_for_by_the_minute() {
    let day = [
        ("x-ratelimit-limit-requests", "1000"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "1h0m0s"),
    ];
    means(
        refusal(Provider::Groq, 429, &day, ""),
        Kind::Quota,
        Some(3_600_000),
        false,
    );
    // The same names count by the minute at OpenAI.
    means(
        refusal(Provider::OpenAi, 429, &day, ""),
        Kind::Rate,
        Some(3_600_000),
        true,
    );
    let gemini = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota",
        "details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":
        [{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"50"}]},
        {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"22s"}]}}"#;
    means(
        refusal(Provider::Gemini, 429, &[], gemini),
        Kind::Quota,
        Some(22_000),
        false,
    );
    // Bedrock throttles for either, and its message alone says for which.
    let throttled = [("x-amzn-errortype", "ThrottlingException")];
    for (message, kind) in [
        ("Too many tokens, please wait", Kind::Rate),
        ("Too many tokens per day, please wait", Kind::Quota),
    ] {
        let body = format!("{{\"message\":\"{message}\"}}");
        let told = refusal(Provider::Bedrock, 429, &throttled, &body);
        means(told, kind, None, kind == Kind::Rate);
        let told = refusal(Provider::OpenAi, 429, &[], &body);
        means(told, Kind::Rate, None, true);
    }
    let azure = refusal(Provider::AzureOpenAi, 403, &[("retry-after", "900")], "");
    means(azure, Kind::Quota, Some(900_000), false);
}

#[test]
fn the_more_precise_delay_of_two_counts() {
    let body = r#"{"error":{"message":"Quota exceeded. Please retry in 10.689s.",
        "details":[{"retryDelay":"10s"}]}}"#;
    means(
        refusal(Provider::Gemini, 429, &[], body),
        Kind::Rate,
        Some(10_689),
        true,
    );
    let other = r#"{"error":{"message":"retry in a while","details":[{"retryDelay":"10s"}]}}"#;
    means(
        refusal(Provider::Gemini, 429, &[], other),
        Kind::Rate,
        Some(10_000),
        true,
    );
}

/// OpenAI's and Groq's refusals have had nothing but that.
#[test]
fn a_delay_that_only_the_message_says_is_read() {
    let message = |text: &str| format!("{{\"error\":{{\"message\":\"{text}\"}}}}");
    for (text, after) in [
        ("Please try again in 1m26.4s. Visit", Some(86_400)),
        ("Please try again in 562ms.", Some(562)),
        (
            "Please try again in 50.597142857s. Need more?",
            Some(50_597),
        ),
        ("Please try again in a while.", None),
        ("Please try again in ", None),
    ] {
        let told = refusal(Provider::Groq, 429, &[], &message(text));
        let after_ms = told
            .and_then(|told| told.retry_after)
            .map(|after| after.as_micros() / 1_000);
        assert_eq!(after_ms, after, "{text}");
    }
    let both = message("Please try again in 5s.");
    means(
        refusal(Provider::OpenAi, 429, &[("retry-after", "3")], &both),
        Kind::Rate,
        Some(3_000),
        true,
    );
}

/// Azure API Management: 429 for its rate, 403 for its quota, each with when to come again.
#[test]
fn azures_gateway_tells_a_rate_from_a_quota_by_its_status() {
    let after = [("retry-after", "41")];
    let of = |status| refusal(Provider::AzureOpenAi, status, &after, r#"{"statusCode":0}"#);
    means(of(429), Kind::Rate, Some(41_000), true);
    means(of(403), Kind::Quota, Some(41_000), false);
    assert_eq!(refusal(Provider::AzureOpenAi, 403, &[], ""), None);
    assert_eq!(refusal(Provider::OpenAi, 403, &after, ""), None);
}

/// The least of a minute and a week is no use: what is used up for a week is not asked for again.
#[test]
fn a_subscriptions_week_at_anthropic_is_no_rate() {
    let told = |window: &str| {
        let (status, reset) = (
            format!("anthropic-ratelimit-unified-{window}-status"),
            format!("anthropic-ratelimit-unified-{window}-reset"),
        );
        let lines = [(&*status, "rejected"), (&*reset, "1736730660")];
        refusal(Provider::Anthropic, 429, &lines, "")
    };
    means(told("5h"), Kind::Rate, Some(7_200_000), true);
    means(told("7d"), Kind::Quota, Some(7_200_000), false);
}

#[test]
fn overload_and_failure_are_told_apart_from_limits() {
    means(
        refusal(Provider::Anthropic, 529, &[], ""),
        Kind::Overloaded,
        None,
        true,
    );
    means(
        refusal(Provider::OpenAi, 503, &[("retry-after", "2")], ""),
        Kind::Overloaded,
        Some(2_000),
        true,
    );
    for status in [408, 409, 500, 502, 504] {
        means(
            refusal(Provider::OpenAi, status, &[], "<html>"),
            Kind::Failed,
            None,
            true,
        );
    }
    let throttled = [("x-amzn-errortype", "ThrottlingException")];
    means(
        refusal(Provider::Bedrock, 429, &throttled, ""),
        Kind::Rate,
        None,
        true,
    );
    means(
        refusal(Provider::Bedrock, 400, &throttled, ""),
        Kind::Rate,
        None,
        true,
    );
    let quota = [(
        "x-amzn-errortype",
        "ServiceQuotaExceededException:http://internal/",
    )];
    means(
        refusal(Provider::Bedrock, 429, &quota, ""),
        Kind::Quota,
        None,
        false,
    );
}

#[test]
fn an_answer_and_an_error_of_the_callers_own_are_no_refusals() {
    for status in [200, 204, 302, 400, 401, 403, 404, 413, 422] {
        assert_eq!(
            refusal(Provider::OpenAi, status, &[], "{}"),
            None,
            "{status}"
        );
    }
    // A body that tells of money changes nothing of an answer that is none.
    let spent = r#"{"error":{"code":"insufficient_quota"}}"#;
    assert_eq!(refusal(Provider::OpenAi, 200, &[], spent), None);
}

#[test]
fn a_large_or_broken_body_is_not_read() {
    let large = format!(
        "{{\"error\":{{\"code\":\"insufficient_quota\",\"x\":\"{}\"}}}}",
        "x".repeat(70_000)
    );
    means(
        refusal(Provider::OpenAi, 429, &[], &large),
        Kind::Rate,
        None,
        true,
    );
    means(
        refusal(Provider::OpenAi, 429, &[], "{\"error\":"),
        Kind::Rate,
        None,
        true,
    );
}
