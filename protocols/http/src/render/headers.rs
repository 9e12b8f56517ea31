//! The header fields of the IETF's draft (RFC 9651 lists, strictly written),
//! and the three older ones on request.
//!
//! ```text
//! RateLimit-Policy: "rpm";q=300;w=60,"running";q=24;qu="concurrent-requests"
//! RateLimit: "rpm";r=299;t=1,"running";r=23
//! ```
//!
//! A rate counts what no registered unit names (tokens, cents), so it says
//! `tidegate-qu="units"`; a burst of its own is `tidegate-burst`. A window that
//! is no whole number of seconds, or follows a calendar, has no `w`.

use std::fmt::Write;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tidegate::{Decision, Limit, Period, Standing, Timestamp};
use tidegate_service::Told;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// As much as a field usually comes to, in bytes.
const USUAL: usize = 64;

/// The largest integer of a structured field: 15 digits.
const LARGEST: u64 = 999_999_999_999_999;

/// Which fields an answer carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// `RateLimit` and `RateLimit-Policy`.
    Standard,
    /// And `X-RateLimit-*` too.
    Legacy,
}

/// Puts in what is told of the limits, if anything is.
pub(crate) fn put(headers: &mut HeaderMap, told: &Told<'_>, style: Style) {
    let Some(decision) = told.decision() else {
        return;
    };
    let now = told.at();
    let mut policy = String::with_capacity(USUAL);
    let mut state = String::with_capacity(USUAL);
    for (name, standing) in decision.standings() {
        if let Some(limit) = decision.limit(name) {
            write_policy(begin(&mut policy, name), limit);
        }
        write_state(begin(&mut state, name), standing, now);
    }
    insert(headers, RATE_LIMIT_POLICY, policy);
    insert(headers, RATE_LIMIT, state);
    if style == Style::Legacy {
        put_legacy(headers, decision, now);
    }
}

/// The closest to exhaustion: the one that binds, or has the least left.
fn put_legacy(headers: &mut HeaderMap, decision: &Decision, now: Timestamp) {
    let binding = decision.binding().and_then(|name| decision.standing(name));
    let scarce = |(_, standing): &(&str, Standing)| {
        u128::from(standing.remaining) * u128::from(u64::MAX) / u128::from(standing.limit.max(1))
    };
    let closest = decision.standings().min_by_key(scarce);
    let Some(standing) = binding.or(closest.map(|(_, standing)| standing)) else {
        return;
    };
    let reset = standing.full_at.map_or(0, |at| at.since(now).secs_up());
    headers.insert(LIMIT, HeaderValue::from(standing.limit));
    headers.insert(REMAINING, HeaderValue::from(standing.remaining));
    headers.insert(RESET, HeaderValue::from(reset));
}

fn write_policy(list: &mut String, limit: &Limit) {
    parameter(list, "q", limit.capacity());
    match window(limit) {
        _ if limit.is_concurrency() => list.push_str(";qu=\"concurrent-requests\""),
        Some(seconds) => parameter(list, "w", seconds),
        None => {}
    }
    if !limit.is_counted() {
        list.push_str(";tidegate-qu=\"units\"");
    }
    if limit.at_most() != limit.capacity() {
        parameter(list, "tidegate-burst", limit.at_most());
    }
}

fn write_state(list: &mut String, standing: Standing, now: Timestamp) {
    parameter(list, "r", standing.remaining);
    if let Some(at) = standing.replenish_at {
        parameter(list, "t", at.since(now).secs_up());
    }
}

/// The window in whole seconds, if it is one.
fn window(limit: &Limit) -> Option<u64> {
    match limit.period()? {
        Period::Every(length) if length.subsec_nanos() == 0 => Some(length.as_secs()),
        _ => None,
    }
}

/// Begins a member of a list with its name, as a structured field's string:
/// printable ASCII. What is not is written as a URL would have it.
fn begin<'l>(list: &'l mut String, name: &str) -> &'l mut String {
    list.push_str(if list.is_empty() { "\"" } else { ",\"" });
    match name.bytes().all(is_plain) {
        true => list.push_str(name),
        false => escape(list, name),
    }
    list.push('"');
    list
}

/// Whether a byte stands in such a string as itself.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

fn escape(list: &mut String, name: &str) {
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => list.extend(['\\', char::from(byte)]),
            b' '..=b'~' => list.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => _ = write!(list, "%{byte:02X}"),
        }
    }
}

fn parameter(list: &mut String, name: &str, value: u64) {
    let mut digits = itoa::Buffer::new();
    for part in [";", name, "=", digits.format(value.min(LARGEST))] {
        list.push_str(part);
    }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, list: String) {
    // An empty list is no field at all.
    if let (false, Ok(value)) = (list.is_empty(), HeaderValue::try_from(list)) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn policy(limit: &Limit) -> String {
        let mut list = String::new();
        write_policy(begin(&mut list, limit.name()), limit);
        list
    }

    #[test]
    fn a_policy_says_quota_window_and_unit() {
        let minute = Duration::from_secs(60);
        let cases = [
            (Limit::calls("rpm", 300, minute), r#""rpm";q=300;w=60"#),
            (
                Limit::rate("tpm", 600, minute).burst(900),
                r#""tpm";q=600;w=60;tidegate-qu="units";tidegate-burst=900"#,
            ),
            (
                Limit::concurrency("running", 24),
                r#""running";q=24;qu="concurrent-requests""#,
            ),
            (
                Limit::calls("fast", 5, Duration::from_millis(1_500)),
                r#""fast";q=5"#,
            ),
            (
                Limit::calls("daily", 9, Period::day("UTC")),
                r#""daily";q=9"#,
            ),
        ];
        for (limit, field) in cases {
            assert_eq!(policy(&limit), field);
        }
    }

    #[test]
    fn no_number_is_longer_than_a_structured_field_allows() {
        let limit = Limit::rate("all", tidegate::MAX_AMOUNT, Duration::from_secs(1));
        assert_eq!(
            policy(&limit),
            r#""all";q=999999999999999;w=1;tidegate-qu="units""#
        );
    }

    #[test]
    fn a_name_of_any_content_is_a_string_of_printable_ascii() {
        let mut list = String::new();
        begin(&mut list, "a\"b\\c d\n€");
        assert_eq!(list, r#""a\"b\\c d%0A%E2%82%AC""#);
    }
}
