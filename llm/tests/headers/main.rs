//! What answers say of limits in their headers.
//!
//! | file | has |
//! |---|---|
//! | `providers` | each provider's own names, row by row of its documentation |
//! | `draft` | the fields of the IETF draft, and what came before them |
//! | `times` | when to come again, in each way to say it |
//! | `events` | what a session over a WebSocket is told |
//! | `recorded` | answers that somebody has published, as they stood (`recorded/*.txt`) |

mod draft;
mod events;
mod providers;
mod recorded;
mod times;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use tidegate_core::Timestamp;
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
