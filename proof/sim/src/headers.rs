//! Rate-limit headers, in each dialect.

use tidegate_core::{Span, Timestamp};
use tidegate_llm::Provider;

use crate::limit::{Full, Standing, Unit};

/// A header's name and value.
pub type Header = (&'static str, String);

/// The headers that tell how limits stand; what is left of tokens is rounded to multiples.
#[must_use]
pub fn tell(
    dialect: Provider,
    standings: &[Standing],
    now: Timestamp,
    rounding: u64,
) -> Vec<Header> {
    let standings: Vec<Standing> = standings
        .iter()
        .map(|one| rounded(*one, rounding))
        .collect();
    match dialect {
        Provider::OpenAi => openai(&standings, go),
        Provider::Groq => openai(&of_groq(&standings), go),
        Provider::AzureOpenAi => openai(&standings, |reset| reset.secs_up().to_string()),
        Provider::Anthropic => anthropic(&standings, now),
        Provider::Cerebras => cerebras(&standings),
        Provider::Mistral => mistral(&standings),
        Provider::Generic => ietf(&standings),
        _ => Vec::new(),
    }
}

/// When to come again, of a refusal.
#[must_use]
pub fn retry_after(dialect: Provider, full: Full) -> Vec<Header> {
    let Full::For(wait) = full else {
        return Vec::new();
    };
    let seconds = ("retry-after", wait.secs_up().to_string());
    match dialect {
        Provider::Gemini | Provider::Bedrock => Vec::new(),
        Provider::OpenAi | Provider::AzureOpenAi => {
            vec![seconds, ("retry-after-ms", wait.millis_up().to_string())]
        }
        _ => vec![seconds],
    }
}

fn rounded(standing: Standing, rounding: u64) -> Standing {
    if standing.limit.unit == Unit::Requests || rounding <= 1 {
        return standing;
    }
    let remaining = standing.remaining.saturating_add(rounding / 2) / rounding * rounding;
    Standing {
        remaining,
        ..standing
    }
}

/// Requests are told by the day there, tokens by the minute.
fn of_groq(standings: &[Standing]) -> Vec<Standing> {
    let is_told =
        |standing: &&Standing| (standing.limit.unit == Unit::Requests) == standing.limit.is_daily();
    standings.iter().filter(is_told).copied().collect()
}

/// Of the limits of a unit the one of which the smallest share is left.
fn tightest(standings: &[Standing], is_meant: impl Fn(&Standing) -> bool) -> Option<&Standing> {
    let meant = standings.iter().filter(|standing| is_meant(standing));
    let left = |standing: &Standing| {
        u128::from(standing.remaining) * 1_000_000 / u128::from(standing.limit.capacity)
    };
    meant.min_by_key(|standing| left(standing))
}

/// A name for the limits of a unit that are told by one.
type Names = (&'static str, &'static str, &'static str);

fn openai(standings: &[Standing], reset: impl Fn(Span) -> String) -> Vec<Header> {
    const NAMES: [(Unit, Names); 4] = [
        (
            Unit::Requests,
            (
                "x-ratelimit-limit-requests",
                "x-ratelimit-remaining-requests",
                "x-ratelimit-reset-requests",
            ),
        ),
        (
            Unit::Tokens,
            (
                "x-ratelimit-limit-tokens",
                "x-ratelimit-remaining-tokens",
                "x-ratelimit-reset-tokens",
            ),
        ),
        (
            Unit::Input,
            (
                "x-ratelimit-limit-input-tokens",
                "x-ratelimit-remaining-input-tokens",
                "x-ratelimit-reset-input-tokens",
            ),
        ),
        (
            Unit::Output,
            (
                "x-ratelimit-limit-output-tokens",
                "x-ratelimit-remaining-output-tokens",
                "x-ratelimit-reset-output-tokens",
            ),
        ),
    ];
    triples(standings, &NAMES, reset)
}

fn anthropic(standings: &[Standing], now: Timestamp) -> Vec<Header> {
    const NAMES: [(Unit, Names); 4] = [
        (
            Unit::Requests,
            (
                "anthropic-ratelimit-requests-limit",
                "anthropic-ratelimit-requests-remaining",
                "anthropic-ratelimit-requests-reset",
            ),
        ),
        (
            Unit::Tokens,
            (
                "anthropic-ratelimit-tokens-limit",
                "anthropic-ratelimit-tokens-remaining",
                "anthropic-ratelimit-tokens-reset",
            ),
        ),
        (
            Unit::Input,
            (
                "anthropic-ratelimit-input-tokens-limit",
                "anthropic-ratelimit-input-tokens-remaining",
                "anthropic-ratelimit-input-tokens-reset",
            ),
        ),
        (
            Unit::Output,
            (
                "anthropic-ratelimit-output-tokens-limit",
                "anthropic-ratelimit-output-tokens-remaining",
                "anthropic-ratelimit-output-tokens-reset",
            ),
        ),
    ];
    triples(standings, &NAMES, |reset| rfc3339(now, reset))
}

fn triples(
    standings: &[Standing],
    names: &[(Unit, Names)],
    reset: impl Fn(Span) -> String,
) -> Vec<Header> {
    let mut headers = Vec::new();
    for (unit, (limit, remaining, resets)) in names {
        if let Some(told) = tightest(standings, |standing| standing.limit.unit == *unit) {
            headers.push((*limit, told.limit.capacity.to_string()));
            headers.push((*remaining, told.remaining.to_string()));
            headers.push((*resets, reset(told.reset)));
        }
    }
    headers
}

fn cerebras(standings: &[Standing]) -> Vec<Header> {
    const NAMES: [(Unit, u64, Names); 6] = [
        (
            Unit::Requests,
            60,
            (
                "x-ratelimit-limit-requests-minute",
                "x-ratelimit-remaining-requests-minute",
                "x-ratelimit-reset-requests-minute",
            ),
        ),
        (
            Unit::Requests,
            3_600,
            (
                "x-ratelimit-limit-requests-hour",
                "x-ratelimit-remaining-requests-hour",
                "x-ratelimit-reset-requests-hour",
            ),
        ),
        (
            Unit::Requests,
            86_400,
            (
                "x-ratelimit-limit-requests-day",
                "x-ratelimit-remaining-requests-day",
                "x-ratelimit-reset-requests-day",
            ),
        ),
        (
            Unit::Tokens,
            60,
            (
                "x-ratelimit-limit-tokens-minute",
                "x-ratelimit-remaining-tokens-minute",
                "x-ratelimit-reset-tokens-minute",
            ),
        ),
        (
            Unit::Tokens,
            3_600,
            (
                "x-ratelimit-limit-tokens-hour",
                "x-ratelimit-remaining-tokens-hour",
                "x-ratelimit-reset-tokens-hour",
            ),
        ),
        (
            Unit::Tokens,
            86_400,
            (
                "x-ratelimit-limit-tokens-day",
                "x-ratelimit-remaining-tokens-day",
                "x-ratelimit-reset-tokens-day",
            ),
        ),
    ];
    let mut headers = Vec::new();
    for (unit, seconds, names) in NAMES {
        let of_period = |standing: &&Standing| standing.limit.period == Span::from_secs(seconds);
        let meant: Vec<Standing> = standings.iter().filter(of_period).copied().collect();
        headers.extend(triples(&meant, &[(unit, names)], |reset| {
            format!("{:.6}", reset.as_duration().as_secs_f64())
        }));
    }
    headers
}

fn mistral(standings: &[Standing]) -> Vec<Header> {
    const NAMES: [(Unit, &str, &str); 2] = [
        (
            Unit::Requests,
            "x-ratelimit-limit-req-minute",
            "x-ratelimit-remaining-req-minute",
        ),
        (
            Unit::Tokens,
            "x-ratelimit-limit-tokens-minute",
            "x-ratelimit-remaining-tokens-minute",
        ),
    ];
    let mut headers = Vec::new();
    for (unit, limit, remaining) in NAMES {
        if let Some(told) = tightest(standings, |standing| standing.limit.unit == unit) {
            headers.push((limit, told.limit.capacity.to_string()));
            headers.push((remaining, told.remaining.to_string()));
        }
    }
    headers
}

/// `RateLimit` and `RateLimit-Policy` of the IETF's draft. A window of less than a second cannot
/// be told in it.
fn ietf(standings: &[Standing]) -> Vec<Header> {
    let list = |item: &dyn Fn(&Standing) -> String| {
        let items: Vec<String> = standings.iter().map(item).collect();
        items.join(", ")
    };
    if standings.is_empty() {
        return Vec::new();
    }
    let policy = list(&|told| {
        let (name, window) = (policy_name(told), told.limit.period.secs_up());
        let unit = own_unit(told);
        format!("\"{name}\";q={};w={window}{unit}", told.limit.capacity)
    });
    let limit = list(&|told| {
        let (name, reset) = (policy_name(told), told.reset.secs_up());
        format!("\"{name}\";r={};t={reset}", told.remaining)
    });
    vec![("ratelimit-policy", policy), ("ratelimit", limit)]
}

/// The draft has no word for tokens; without any it would be requests.
const fn own_unit(standing: &Standing) -> &'static str {
    match standing.limit.unit {
        Unit::Requests => "",
        _ => ";sim-qu=\"llm-tokens\"",
    }
}

/// `tokens-60`.
fn policy_name(standing: &Standing) -> String {
    let limit = &standing.limit;
    format!("{}-{}", limit.unit.name(), limit.period.secs_up())
}

/// As Go writes a duration, in whole milliseconds: `12ms`, `1s`, `6m0s`, `2m59.56s`.
#[must_use]
pub fn go(span: Span) -> String {
    let millis = span.millis_up();
    if millis == 0 {
        return "0s".to_owned();
    }
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let seconds = match rest % 1_000 {
        0 => (rest / 1_000).to_string(),
        behind => format!("{}.{behind:03}", rest / 1_000)
            .trim_end_matches('0')
            .to_owned(),
    };
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// `2025-01-12T23:11:59Z`, rounded up to a second.
fn rfc3339(now: Timestamp, reset: Span) -> String {
    let at = now.after_micros(u128::from(reset.as_micros()) + 999_999);
    let at = jiff::Timestamp::from_second(at.as_micros().div_euclid(1_000_000));
    at.map_or_else(
        |_| String::new(),
        |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    )
}
