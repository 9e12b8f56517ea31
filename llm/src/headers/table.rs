//! The names of headers, by provider.

use tidegate_core::Span;

use crate::provider::{Provider, Unit};

/// The three headers of one limit.
pub(super) struct Row {
    pub name: &'static str,
    pub unit: Unit,
    pub window: Option<Span>,
    pub limit: &'static str,
    pub remaining: &'static str,
    pub reset: &'static str,
    /// By how much what is written as left may be above what is.
    pub rounded_by: u64,
}

/// The headers of a limit that is told by whether it lets calls in.
pub(super) struct Window {
    pub name: &'static str,
    pub window: Option<Span>,
    pub status: &'static str,
    pub reset: &'static str,
}

const MINUTE: Option<Span> = Some(Span::from_secs(60));
const HOUR: Option<Span> = Some(Span::from_secs(3_600));
const FIVE_HOURS: Option<Span> = Some(Span::from_secs(5 * 3_600));
const DAY: Option<Span> = Some(Span::from_secs(86_400));
const WEEK: Option<Span> = Some(Span::from_secs(7 * 86_400));

/// `x-ratelimit-limit-NAME`, `-remaining-`, `-reset-`.
macro_rules! x_ratelimit {
    ($name:literal, $unit:ident, $window:expr) => {
        Row {
            name: $name,
            unit: Unit::$unit,
            window: $window,
            limit: concat!("x-ratelimit-limit-", $name),
            remaining: concat!("x-ratelimit-remaining-", $name),
            reset: concat!("x-ratelimit-reset-", $name),
            rounded_by: 0,
        }
    };
}

/// `PREFIX-limit`, `-remaining`, `-reset`. Of tokens what is left is rounded to thousands.
macro_rules! anthropic {
    ($name:literal, $prefix:literal, $unit:ident, $rounded:literal) => {
        Row {
            name: $name,
            unit: Unit::$unit,
            window: MINUTE,
            limit: concat!($prefix, "-limit"),
            remaining: concat!($prefix, "-remaining"),
            reset: concat!($prefix, "-reset"),
            rounded_by: $rounded,
        }
    };
}

/// `NAME-status`, `-reset`.
macro_rules! unified {
    ($name:literal, $prefix:literal, $window:expr) => {
        Window {
            name: $name,
            window: $window,
            status: concat!($prefix, "-status"),
            reset: concat!($prefix, "-reset"),
        }
    };
}

/// Headers without a word for what they count.
macro_rules! unnamed {
    ($limit:literal, $remaining:literal, $reset:literal) => {
        Row {
            name: "default",
            unit: Unit::Requests,
            window: None,
            limit: $limit,
            remaining: $remaining,
            reset: $reset,
            rounded_by: 0,
        }
    };
}

const OPENAI: &[Row] = &[
    x_ratelimit!("requests", Requests, MINUTE),
    x_ratelimit!("tokens", Tokens, MINUTE),
    x_ratelimit!("input-tokens", InputTokens, MINUTE),
    x_ratelimit!("output-tokens", OutputTokens, MINUTE),
    x_ratelimit!("project-tokens", Tokens, MINUTE),
    x_ratelimit!("tokens_usage_based", Tokens, None),
];

/// Those of the priority tier and of the fast mode are limits of their own, beside the account's.
const ANTHROPIC: &[Row] = &[
    anthropic!("requests", "anthropic-ratelimit-requests", Requests, 0),
    anthropic!("tokens", "anthropic-ratelimit-tokens", Tokens, 500),
    anthropic!(
        "input-tokens",
        "anthropic-ratelimit-input-tokens",
        InputTokens,
        500
    ),
    anthropic!(
        "output-tokens",
        "anthropic-ratelimit-output-tokens",
        OutputTokens,
        500
    ),
    anthropic!(
        "priority-input-tokens",
        "anthropic-priority-input-tokens",
        Other,
        500
    ),
    anthropic!(
        "priority-output-tokens",
        "anthropic-priority-output-tokens",
        Other,
        500
    ),
    anthropic!(
        "fast-input-tokens",
        "anthropic-fast-input-tokens",
        Other,
        500
    ),
    anthropic!(
        "fast-output-tokens",
        "anthropic-fast-output-tokens",
        Other,
        500
    ),
];

/// Those of a subscription.
const UNIFIED: &[Window] = &[
    unified!("unified", "anthropic-ratelimit-unified", None),
    unified!("unified-5h", "anthropic-ratelimit-unified-5h", FIVE_HOURS),
    unified!("unified-7d", "anthropic-ratelimit-unified-7d", WEEK),
];

const GROQ: &[Row] = &[
    x_ratelimit!("requests", Requests, DAY),
    x_ratelimit!("tokens", Tokens, MINUTE),
    x_ratelimit!("input-tokens", InputTokens, MINUTE),
    x_ratelimit!("output-tokens", OutputTokens, MINUTE),
];

const CEREBRAS: &[Row] = &[
    x_ratelimit!("requests-minute", Requests, MINUTE),
    x_ratelimit!("requests-hour", Requests, HOUR),
    x_ratelimit!("requests-day", Requests, DAY),
    x_ratelimit!("tokens-minute", Tokens, MINUTE),
    x_ratelimit!("tokens-hour", Tokens, HOUR),
    x_ratelimit!("tokens-day", Tokens, DAY),
];

const MISTRAL: &[Row] = &[
    x_ratelimit!("req-minute", Requests, MINUTE),
    x_ratelimit!("tokens-minute", Tokens, MINUTE),
    x_ratelimit!("tokens-month", Tokens, None),
];

/// What came before the IETF draft's present form, the first that is there.
pub(super) const BEFORE: &[Row] = &[
    unnamed!("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"),
    unnamed!(
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset"
    ),
    unnamed!(
        "x-rate-limit-limit",
        "x-rate-limit-remaining",
        "x-rate-limit-reset"
    ),
];

/// The names of a provider; none of one that tells nothing in headers.
pub(super) const fn of(provider: Provider) -> &'static [Row] {
    match provider {
        Provider::OpenAi | Provider::AzureOpenAi => OPENAI,
        Provider::Anthropic => ANTHROPIC,
        Provider::Groq => GROQ,
        Provider::Cerebras => CEREBRAS,
        Provider::Mistral => MISTRAL,
        Provider::Gemini | Provider::Bedrock | Provider::Generic => &[],
    }
}

/// Limits of a provider that are told by whether they let calls in.
pub(super) const fn windows(provider: Provider) -> &'static [Window] {
    match provider {
        Provider::Anthropic => UNIFIED,
        _ => &[],
    }
}

/// A provider's own name for when to come again, which counts after the usual ones.
pub(super) const fn come_again(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::AzureOpenAi => Some("x-rate-limit-reset-tokens"),
        _ => None,
    }
}
