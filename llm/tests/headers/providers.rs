//! Each provider's own names, row by row of its documentation.

use tidegate_core::Span;
use tidegate_llm::headers::MOST_OBSERVATIONS;
use tidegate_llm::{Provider, Signals, Unit};

use super::{NOW, read, rows};

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

/// The sum of both directions, or the workspace's own limit, if that is less.
#[test]
fn anthropic_tells_the_most_restrictive_limit_on_tokens_beside_those_of_each_direction() {
    let signals = read(
        Provider::Anthropic,
        &[
            ("anthropic-ratelimit-tokens-limit", "280000"),
            ("anthropic-ratelimit-tokens-remaining", "80000"),
            ("anthropic-ratelimit-tokens-reset", "2025-01-12T23:11:30Z"),
            ("anthropic-ratelimit-input-tokens-limit", "200000"),
        ],
    );
    assert_eq!(
        rows(&signals),
        [
            (
                "tokens",
                Unit::Tokens,
                Some(280_000),
                Some(79_500),
                Some(30_000)
            ),
            ("input-tokens", Unit::InputTokens, Some(200_000), None, None),
        ]
    );
}

/// They were taken for the account's limits on tokens of the prompt and of the answer, which are
/// others: calls of a tier that is used up go on at the usual limits.
#[test]
fn limits_of_anthropics_priority_tier_and_of_its_fast_mode_are_none_of_the_accounts() {
    let signals = read(
        Provider::Anthropic,
        &[
            ("anthropic-ratelimit-input-tokens-limit", "2000000"),
            ("anthropic-ratelimit-input-tokens-remaining", "1900000"),
            ("anthropic-priority-input-tokens-limit", "10000"),
            ("anthropic-priority-input-tokens-remaining", "9618"),
            (
                "anthropic-priority-input-tokens-reset",
                "2025-01-12T23:11:15Z",
            ),
            ("anthropic-priority-output-tokens-limit", "10000"),
            ("anthropic-priority-output-tokens-remaining", "6000"),
            (
                "anthropic-priority-output-tokens-reset",
                "2025-01-12T23:12:00Z",
            ),
            ("anthropic-fast-input-tokens-limit", "100000"),
            ("anthropic-fast-input-tokens-remaining", "0"),
            ("anthropic-fast-input-tokens-reset", "2025-01-12T23:11:42Z"),
            ("anthropic-fast-output-tokens-limit", "20000"),
            ("anthropic-fast-output-tokens-remaining", "19700"),
            ("anthropic-fast-output-tokens-reset", "2025-01-12T23:11:01Z"),
        ],
    );
    let apart =
        |name, limit, left, reset| (name, Unit::Other, Some(limit), Some(left), Some(reset));
    assert_eq!(
        rows(&signals),
        [
            (
                "input-tokens",
                Unit::InputTokens,
                Some(2_000_000),
                Some(1_899_500),
                None
            ),
            apart("priority-input-tokens", 10_000, 9_118, 15_000),
            apart("priority-output-tokens", 10_000, 5_500, 60_000),
            apart("fast-input-tokens", 100_000, 0, 42_000),
            apart("fast-output-tokens", 20_000, 19_200, 1_000),
        ]
    );
    // What is used up is, whoever's it is.
    let until = signals.exhausted_until().unwrap();
    assert_eq!(until.since(NOW), Span::from_secs(42));
    assert_eq!(signals.ignored, 0);
}

/// A subscription's: instants in seconds since 1970, a share that was used, and no numbers of units.
#[test]
fn a_subscriptions_windows_at_anthropic_say_when_they_let_in_again_and_nothing_else() {
    let told = |status: &str, week: &str| {
        let lines = [
            ("anthropic-ratelimit-unified-status", status),
            ("anthropic-ratelimit-unified-reset", "1736740800"),
            ("anthropic-ratelimit-unified-5h-status", "allowed"),
            ("anthropic-ratelimit-unified-5h-reset", "1736730000"),
            ("anthropic-ratelimit-unified-5h-utilization", "0.42"),
            ("anthropic-ratelimit-unified-7d-status", week),
            ("anthropic-ratelimit-unified-7d-reset", "1737000000"),
            ("anthropic-ratelimit-unified-7d-utilization", "1.0"),
            ("anthropic-ratelimit-unified-7d_oi-status", "rejected"),
            ("anthropic-ratelimit-unified-fallback-percentage", "0.5"),
            ("anthropic-ratelimit-unified-overage-status", "rejected"),
            (
                "anthropic-ratelimit-unified-representative-claim",
                "five_hour",
            ),
        ];
        read(Provider::Anthropic, &lines)
    };
    for status in ["allowed", "allowed_warning", "", "REJECTED?"] {
        assert_eq!(told(status, "allowed"), Signals::default(), "{status}");
    }
    let rejected = told("rejected", "rejected");
    assert_eq!(
        rows(&rejected),
        [
            ("unified", Unit::Other, None, Some(0), Some(17_340_000)),
            ("unified-7d", Unit::Other, None, Some(0), Some(276_540_000)),
        ]
    );
    let windows = rejected.observations.iter().map(|seen| seen.window);
    assert_eq!(
        windows.collect::<Vec<_>>(),
        [None, Some(Span::from_secs(7 * 86_400))]
    );
    assert_eq!(rejected.ignored, 0);
}

/// Where a policy of Azure API Management counts tokens, the names are its author's; only
/// `Retry-After` has one of its own.
#[test]
fn headers_that_an_author_of_azure_api_management_has_named_are_read_if_named_as_azures() {
    let own = [
        ("remaining-tokens", "120"),
        ("consumed-tokens", "380"),
        ("remaining-quota-tokens", "9000"),
        ("retry-after", "41"),
    ];
    let signals = read(Provider::AzureOpenAi, &own);
    assert_eq!(signals.observations, []);
    assert_eq!(signals.retry_after, Some(Span::from_secs(41)));
    let azures = [("x-ratelimit-remaining-tokens", "120")];
    let tokens = ("tokens", Unit::Tokens, None, Some(120), None);
    assert_eq!(rows(&read(Provider::AzureOpenAi, &azures)), [tokens]);
}

/// Refusals of Azure have had it in place of `Retry-After`.
#[test]
fn azures_other_name_for_when_to_come_again_counts_last() {
    let reset = ("x-rate-limit-reset-tokens", "55");
    let of = |provider, lines: &[_]| read(provider, lines).retry_after;
    assert_eq!(
        of(Provider::AzureOpenAi, &[reset]),
        Some(Span::from_secs(55))
    );
    assert_eq!(of(Provider::OpenAi, &[reset]), None);
    assert_eq!(
        of(Provider::AzureOpenAi, &[reset, ("retry-after", "7")]),
        Some(Span::from_secs(7))
    );
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
            // What this call has cost, which is no limit; its body says more of that.
            ("x-ratelimit-tokens-query-cost", "100"),
            ("x-ratelimit-remaining-req-minute", "59"),
        ],
    );
    assert_eq!(signals.ignored, 0);
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

/// The same at Cerebras, which does not document it.
#[test]
fn what_a_call_has_cost_is_no_limit_of_any_provider() {
    for provider in Provider::all() {
        let cost = [("x-ratelimit-tokens-query-cost", "52")];
        assert_eq!(read(provider, &cost), Signals::default(), "{provider}");
    }
}

#[test]
fn no_provider_tells_of_more_limits_than_are_kept() {
    let lines: Vec<(String, &str)> = ["ratelimit", "priority", "fast"]
        .iter()
        .flat_map(|kind| {
            let units = ["requests", "tokens", "input-tokens", "output-tokens"];
            units.map(|unit| (format!("anthropic-{kind}-{unit}-limit"), "1"))
        })
        .chain(["", "-5h", "-7d"].map(|window| {
            let name = format!("anthropic-ratelimit-unified{window}-status");
            (name, "rejected")
        }))
        .collect();
    let lines: Vec<_> = lines
        .iter()
        .map(|(name, value)| (&**name, *value))
        .collect();
    let signals = read(Provider::Anthropic, &lines);
    assert_eq!((signals.observations.len(), signals.ignored), (11, 0));
    assert!(signals.observations.len() <= MOST_OBSERVATIONS);
}
