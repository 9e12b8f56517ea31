//! What each provider's headers say, row by row of its documentation.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use tidegate_core::Timestamp;
use tidegate_llm::headers::MOST_OBSERVATIONS;
use tidegate_llm::{Observation, Provider, Received, Signals, Unit};

/// 2025-01-12T23:11:00Z.
const NOW: Timestamp = Timestamp::from_micros(1_736_723_460_000_000);

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn read(provider: Provider, lines: &[(&str, &str)]) -> Signals {
    let headers = headers(lines);
    Signals::read(provider, &headers, Received::new(NOW, &headers))
}

/// Name, unit, limit, remaining, and milliseconds until it is full again.
type Row<'r> = (&'r str, Unit, Option<u64>, Option<u64>, Option<u64>);

fn row(seen: &Observation) -> Row<'_> {
    let reset = seen.reset_at.map(|at| at.since(NOW).as_micros() / 1_000);
    (&seen.name, seen.unit, seen.limit, seen.remaining, reset)
}

fn rows(signals: &Signals) -> Vec<Row<'_>> {
    signals.observations.iter().map(row).collect()
}

#[test]
fn openai_tells_durations_of_go() {
    let signals = read(
        Provider::OpenAi,
        &[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6m0s"),
            ("x-ratelimit-limit-project-tokens", "90000"),
            ("retry-after-ms", "12.5"),
            ("retry-after", "1"),
            ("x-should-retry", "true"),
        ],
    );
    assert_eq!(
        rows(&signals),
        [
            ("requests", Unit::Requests, Some(60), Some(59), Some(1_000)),
            (
                "tokens",
                Unit::Tokens,
                Some(150_000),
                Some(149_984),
                Some(360_000)
            ),
            ("project-tokens", Unit::Tokens, Some(90_000), None, None),
        ]
    );
    assert_eq!(signals.retry_after.unwrap().as_micros(), 12_500);
    assert_eq!((signals.should_retry, signals.ignored), (Some(true), 0));
}

#[test]
fn azure_tells_whole_seconds_and_minus_one_where_it_does_not_know() {
    let signals = read(
        Provider::AzureOpenAi,
        &[
            ("x-ratelimit-limit-requests", "-1"),
            ("x-ratelimit-remaining-requests", "-1"),
            ("x-ratelimit-reset-requests", "0"),
            ("x-ratelimit-limit-tokens", "1000"),
            ("x-ratelimit-remaining-tokens", "400"),
            ("x-ratelimit-reset-tokens", "36"),
        ],
    );
    let tokens = ("tokens", Unit::Tokens, Some(1_000), Some(400), Some(36_000));
    assert_eq!(rows(&signals), [tokens]);
    assert_eq!(signals.ignored, 0);
}

#[test]
fn anthropic_tells_instants_by_its_own_clock_and_rounds_tokens() {
    let signals = read(
        Provider::Anthropic,
        &[
            ("date", "Sun, 12 Jan 2025 23:21:00 GMT"),
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-requests-reset", "2025-01-12T23:21:02Z"),
            ("anthropic-ratelimit-input-tokens-limit", "40000"),
            ("anthropic-ratelimit-input-tokens-remaining", "39000"),
            (
                "anthropic-ratelimit-input-tokens-reset",
                "2025-01-12T23:21:59Z",
            ),
            ("anthropic-ratelimit-output-tokens-remaining", "0"),
            ("retry-after", "7"),
        ],
    );
    assert_eq!(
        rows(&signals),
        [
            ("requests", Unit::Requests, Some(50), Some(49), Some(2_000)),
            (
                "input-tokens",
                Unit::InputTokens,
                Some(40_000),
                Some(38_500),
                Some(59_000)
            ),
            ("output-tokens", Unit::OutputTokens, None, Some(0), None),
        ]
    );
    assert_eq!(signals.retry_after.unwrap().as_micros(), 7_000_000);
}

#[test]
fn groq_counts_requests_by_the_day() {
    let signals = read(
        Provider::Groq,
        &[
            ("x-ratelimit-limit-requests", "14400"),
            ("x-ratelimit-remaining-requests", "14370"),
            ("x-ratelimit-reset-requests", "2m59.56s"),
            ("x-ratelimit-limit-tokens", "18000"),
            ("x-ratelimit-remaining-tokens", "17997"),
            ("x-ratelimit-reset-tokens", "7.66s"),
        ],
    );
    assert_eq!(
        rows(&signals),
        [
            (
                "requests",
                Unit::Requests,
                Some(14_400),
                Some(14_370),
                Some(179_560)
            ),
            (
                "tokens",
                Unit::Tokens,
                Some(18_000),
                Some(17_997),
                Some(7_660)
            ),
        ]
    );
    let windows: Vec<_> = signals
        .observations
        .iter()
        .map(|seen| seen.window.unwrap())
        .collect();
    assert_eq!(
        windows
            .iter()
            .map(|window| window.secs_up())
            .collect::<Vec<_>>(),
        [86_400, 60]
    );
}

#[test]
fn cerebras_has_several_windows_and_the_longest_that_is_used_up_counts() {
    let signals = read(
        Provider::Cerebras,
        &[
            ("x-ratelimit-limit-requests-day", "1000000000"),
            ("x-ratelimit-remaining-requests-day", "0"),
            ("x-ratelimit-reset-requests-day", "33011.382867"),
            ("x-ratelimit-remaining-tokens-minute", "0"),
            ("x-ratelimit-reset-tokens-minute", "11.38"),
        ],
    );
    let until = signals.exhausted_until().unwrap();
    assert_eq!(until.since(NOW).as_micros(), 33_011_382_867);
}

#[test]
fn mistral_tells_no_reset() {
    let signals = read(
        Provider::Mistral,
        &[
            ("x-ratelimit-limit-tokens-minute", "500000"),
            ("x-ratelimit-remaining-tokens-minute", "499900"),
            ("x-ratelimit-tokens-query-cost", "100"),
            ("x-ratelimit-remaining-req-minute", "59"),
        ],
    );
    assert_eq!(
        rows(&signals),
        [
            ("req-minute", Unit::Requests, None, Some(59), None),
            (
                "tokens-minute",
                Unit::Tokens,
                Some(500_000),
                Some(499_900),
                None
            ),
        ]
    );
}

#[test]
fn the_fields_of_the_draft_are_read_in_every_form_that_they_had() {
    let present = [
        (
            "ratelimit-policy",
            "\"burst\";q=100;w=60,\"daily\";q=1000;w=86400",
        ),
        ("ratelimit", "\"burst\";r=50;t=30"),
        ("ratelimit", "\"daily\";r=999;pk=:dHJpYWwxMjEzMjM=:"),
    ];
    let signals = read(Provider::Generic, &present);
    assert_eq!(
        rows(&signals),
        [
            ("burst", Unit::Requests, Some(100), Some(50), Some(30_000)),
            ("daily", Unit::Requests, Some(1_000), Some(999), None),
        ]
    );
    let own = [
        (
            "ratelimit-policy",
            "\"tpm\";q=9000;w=60;tidegate-qu=\"units\", open;q=5;qu=\"concurrent-requests\"",
        ),
        ("ratelimit", "open;r=4, \"tpm\""),
    ];
    assert_eq!(
        rows(&read(Provider::Generic, &own)),
        [
            ("tpm", Unit::Other, Some(9_000), None, None),
            ("open", Unit::Other, Some(5), Some(4), None),
        ]
    );
    let expected = [("default", Unit::Requests, Some(100), Some(50), Some(30_000))];
    for form in [
        &[
            ("ratelimit", "limit=100, remaining=50, reset=30"),
            ("ratelimit-policy", "100;w=60, 10000;w=86400"),
        ][..],
        &[
            ("ratelimit-limit", "100, 100;w=60"),
            ("ratelimit-remaining", "50"),
            ("ratelimit-reset", "30"),
        ],
        &[
            ("x-ratelimit-limit", "100"),
            ("x-ratelimit-remaining", "50"),
            ("x-ratelimit-reset", "1736723490"),
        ],
        &[
            ("x-rate-limit-limit", "100.0"),
            ("x-rate-limit-remaining", "50"),
            ("x-rate-limit-reset", "1736723490000"),
        ],
    ] {
        assert_eq!(rows(&read(Provider::Generic, form)), expected, "{form:?}");
    }
}

#[test]
fn what_cannot_be_is_left_out_and_counted() {
    let signals = read(
        Provider::OpenAi,
        &[
            ("x-ratelimit-limit-requests", "99999999999999999999"),
            ("x-ratelimit-remaining-requests", "9007199254740992"),
            ("x-ratelimit-reset-requests", "999999h"),
            ("x-ratelimit-limit-tokens", "1e9"),
            ("x-ratelimit-remaining-tokens", "+5"),
            ("retry-after", "soon"),
            ("x-should-retry", "perhaps"),
        ],
    );
    assert_eq!(signals.observations, []);
    assert_eq!((signals.retry_after, signals.should_retry), (None, None));
    assert_eq!(signals.ignored, 7);
}

#[test]
fn an_answer_out_of_a_cache_says_nothing_of_now() {
    let lines = [("age", "12"), ("ratelimit", "\"default\";r=50;t=30")];
    assert_eq!(read(Provider::Generic, &lines), Signals::default());
}

#[test]
fn no_more_observations_than_the_bound_are_kept() {
    let many: Vec<String> = (0..1_000).map(|n| format!("\"n{n}\";r=1")).collect();
    let signals = read(Provider::Generic, &[("ratelimit", &many.join(","))]);
    assert_eq!(signals.observations.len(), MOST_OBSERVATIONS);
    assert_eq!(signals.ignored, 1_000 - MOST_OBSERVATIONS as u32);
}

proptest! {
    #[test]
    fn any_value_of_any_header_is_read_or_refused(
        provider in prop::sample::select(Provider::all().collect::<Vec<_>>()),
        values in prop::collection::vec("[ -~]{0,30}", 8),
    ) {
        let names = [
            "ratelimit", "ratelimit-policy", "x-ratelimit-limit-tokens", "retry-after",
            "x-ratelimit-reset-tokens", "anthropic-ratelimit-tokens-reset", "retry-after-ms", "date",
        ];
        let lines: Vec<_> = names.iter().copied().zip(values.iter().map(String::as_str)).collect();
        for seen in read(provider, &lines).observations {
            prop_assert!(seen.limit.is_none_or(|limit| limit < 1 << 53));
            prop_assert!(seen.remaining.is_none_or(|left| left < 1 << 53));
        }
    }
}
