//! The event of OpenAI's Realtime API that says what headers say.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::observation::MOST_OBSERVATIONS;
use super::signals::Signals;
use crate::provider::Provider;
use crate::when::Received;

/// Longer events are not read.
const LONGEST_EVENT: usize = 64 << 10;

/// The headers that say the same of a limit: names and values.
fn headers_of(limit: &Value) -> Vec<(String, String)> {
    let Some(name) = limit["name"].as_str() else {
        return Vec::new();
    };
    let name = name.replace('_', "-");
    let amount = |word: &str| limit[word].as_number().map(ToString::to_string);
    let reset = limit["reset_seconds"].as_f64();
    let said = [
        ("limit", amount("limit")),
        ("remaining", amount("remaining")),
        ("reset", reset.map(|seconds| format!("{seconds:.9}s"))),
    ];
    let headers = said
        .into_iter()
        .filter_map(|(word, value)| Some((format!("x-ratelimit-{word}-{name}"), value?)));
    headers.collect()
}

impl Signals {
    /// Reads an event of a session of OpenAI's Realtime API, as it came over the WebSocket. Limits
    /// are told by `rate_limits.updated` alone; every other event says nothing, and so does one
    /// that is longer than 64 KiB. Its names are those of the headers with `_` in place of `-`
    /// (`requests`, `tokens`, `input_tokens`, `output_tokens`), its times are seconds.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use tidegate_core::{Span, Timestamp};
    /// use tidegate_llm::{Received, Signals};
    ///
    /// let now = Timestamp::from_micros(1_736_723_460_000_000);
    /// let event = br#"{ "type": "rate_limits.updated", "rate_limits": [
    ///     { "name": "tokens", "limit": 50000, "remaining": 49950, "reset_seconds": 0.06 } ] }"#;
    /// let signals = Signals::of_event(event, Received::new(now, &HeaderMap::new()));
    /// let tokens = &signals.observations[0];
    /// assert_eq!((tokens.limit, tokens.remaining), (Some(50_000), Some(49_950)));
    /// assert_eq!(tokens.reset_at, Some(now + Span::from_micros(60_000)));
    /// ```
    #[must_use]
    pub fn of_event(event: &[u8], received: Received) -> Self {
        if event.len() > LONGEST_EVENT {
            return Self::default();
        }
        let event: Value = serde_json::from_slice(event).unwrap_or_default();
        if event["type"] != "rate_limits.updated" {
            return Self::default();
        }
        let mut headers = HeaderMap::new();
        let limits = event["rate_limits"].as_array().into_iter().flatten();
        for (name, value) in limits.take(MOST_OBSERVATIONS).flat_map(headers_of) {
            let (name, value) = (HeaderName::try_from(name), HeaderValue::try_from(value));
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.insert(name, value);
            }
        }
        Self::read(Provider::OpenAi, &headers, received)
    }
}
