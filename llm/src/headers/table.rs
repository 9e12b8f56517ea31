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

const MINUTE: Option<Span> = Some(Span::from_secs(60));
const HOUR: Option<Span> = Some(Span::from_secs(3_600));
const DAY: Option<Span> = Some(Span::from_secs(86_400));

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

/// `anthropic-NAME-limit`, `-remaining`, `-reset`. Of tokens what is left is rounded to
/// thousands.
macro_rules! anthropic {
    ($kind:literal, $name:literal, $unit:ident, $rounded:literal) => {
        Row {
            name: $name,
            unit: Unit::$unit,
            window: MINUTE,
            limit: concat!("anthropic-", $kind, "-", $name, "-limit"),
            remaining: concat!("anthropic-", $kind, "-", $name, "-remaining"),
            reset: concat!("anthropic-", $kind, "-", $name, "-reset"),
            rounded_by: $rounded,
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

const ANTHROPIC: &[Row] = &[
    anthropic!("ratelimit", "requests", Requests, 0),
    anthropic!("ratelimit", "tokens", Tokens, 500),
    anthropic!("ratelimit", "input-tokens", InputTokens, 500),
    anthropic!("ratelimit", "output-tokens", OutputTokens, 500),
    anthropic!("priority", "input-tokens", InputTokens, 500),
    anthropic!("priority", "output-tokens", OutputTokens, 500),
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
