//! Durations and instants, as providers write them.
//!
//! One reader for all of them: `12ms`, `6m0s`, `2m59.56s` (a Go duration), `22s` (a protobuf
//! duration), `33011.382867` (seconds), `2025-01-12T23:11:59Z` (RFC 3339),
//! `Sun, 06 Nov 1994 08:49:37 GMT` (an HTTP date), and the bare numbers of old headers, which are
//! seconds from now, or an instant in seconds or milliseconds since 1970: their size tells.

use http::HeaderMap;
use http::header::DATE;
use jiff::fmt::rfc2822::DateTimeParser;
use tidegate_core::{Span, Timestamp};

/// The longest that is believed.
const LONGEST: Span = Span::LONGEST_PERIOD;

/// When an answer came, by the caller's clock and by the provider's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    at: Timestamp,
    /// The answer's `Date`: instants of the same answer are by this clock.
    date: Option<Timestamp>,
}

impl Received {
    /// At this instant of the caller's clock; the headers may have a `Date`.
    #[must_use]
    pub fn new(at: Timestamp, headers: &HeaderMap) -> Self {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        Self {
            at,
            date: date.and_then(http_date),
        }
    }

    /// By the caller's clock.
    #[must_use]
    pub const fn at(self) -> Timestamp {
        self.at
    }

    /// How long after the answer `when` is.
    fn until(self, when: When) -> Option<Span> {
        let span = match when {
            When::After(span) => span,
            When::At(instant) => instant.since(self.date.unwrap_or(self.at)),
        };
        (span <= LONGEST).then_some(span)
    }
}

/// A duration, or an instant of the provider's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    After(Span),
    At(Timestamp),
}

/// How long after the answer the instant or duration in `text` is; zero if it has passed.
/// `None` for what is none, for what is negative (providers write -1 where they do not know),
/// and for more than 400 days.
#[must_use]
pub fn until(text: &str, received: Received) -> Option<Span> {
    let text = text.trim();
    let when = match number(text) {
        Some(nanos) => by_size(nanos)?,
        None => match duration(text) {
            Some(span) => When::After(span),
            None => When::At(rfc3339(text).or_else(|| http_date(text))?),
        },
    };
    received.until(when)
}

/// Seconds as a plain number, whatever their size: `Retry-After`.
#[must_use]
pub fn seconds(text: &str) -> Option<Span> {
    span(number(text.trim())?)
}

/// Milliseconds as a plain number: `Retry-After-Ms`.
#[must_use]
pub fn milliseconds(text: &str) -> Option<Span> {
    span(number(text.trim())? / 1_000)
}

/// A duration with units, one or several: `1h2m3s`, `.5s`, `+12ms`. Rounded up to whole
/// microseconds.
#[must_use]
pub fn duration(text: &str) -> Option<Span> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        nanos = nanos.checked_add(number(digits)?.checked_mul(unit_nanos(unit)?)? / BILLION)?;
        rest = after;
    }
    span(nanos)
}

const BILLION: u128 = 1_000_000_000;

/// How many nanoseconds a unit has.
fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => BILLION,
        "m" => 60 * BILLION,
        "h" => 3_600 * BILLION,
        "d" => 86_400 * BILLION,
        _ => return None,
    })
}

/// A decimal number, in billionths of one; digits beyond those count up.
fn number(text: &str) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let empty = whole.is_empty() && fraction.is_empty();
    if empty || whole.len() > 18 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let kept = &fraction[..fraction.len().min(9)];
    let more = fraction[kept.len()..].bytes().any(|byte| byte != b'0');
    let padded: u128 = format!("{kept:0<9}").parse().ok()?;
    Some(whole * BILLION + padded + u128::from(more))
}

/// Billionths of a second, or an instant, by the size of the number.
fn by_size(nanos: u128) -> Option<When> {
    const DELTA_BELOW: u128 = 10_000_000;
    const SECONDS: std::ops::RangeInclusive<u128> = 1_000_000_000..=4_000_000_000;
    const MILLIS: std::ops::RangeInclusive<u128> = 1_000_000_000_000..=4_000_000_000_000;
    let whole = nanos / BILLION;
    let at = |micros: u128| {
        let micros = i64::try_from(micros).ok()?;
        Some(When::At(Timestamp::from_micros(micros)))
    };
    if whole < DELTA_BELOW {
        span(nanos).map(When::After)
    } else if SECONDS.contains(&whole) {
        at(nanos / 1_000)
    } else if MILLIS.contains(&whole) {
        at(nanos / 1_000_000)
    } else {
        None
    }
}

/// Whole microseconds, rounded up; `None` beyond what is believed.
fn span(nanos: u128) -> Option<Span> {
    let micros = u64::try_from(nanos.div_ceil(1_000)).ok()?;
    let span = Span::from_micros(micros);
    (span <= LONGEST).then_some(span)
}

fn rfc3339(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_micros(at.as_microsecond()))
}

fn http_date(text: &str) -> Option<Timestamp> {
    let at = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Timestamp::from_micros(at.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn received() -> Received {
        // 2025-01-12T23:10:00Z
        Received {
            at: Timestamp::from_micros(1_736_723_400_000_000),
            date: None,
        }
    }

    fn micros(text: &str) -> Option<u64> {
        until(text, received()).map(Span::as_micros)
    }

    #[test]
    fn every_dialect_of_durations_and_instants_is_read() {
        for (text, expected) in [
            ("12ms", 12_000),
            ("9ms", 9_000),
            ("1s", 1_000_000),
            ("6m0s", 360_000_000),
            ("2m59.56s", 179_560_000),
            ("7.66s", 7_660_000),
            ("1h2m3s", 3_723_000_000),
            ("1d", 86_400_000_000),
            (".5s", 500_000),
            ("+1.s", 1_000_000),
            ("15us", 15),
            ("15\u{b5}s", 15),
            ("15\u{3bc}s", 15),
            ("1ns", 1),
            ("10.689924287s", 10_689_925),
            ("33011.382867", 33_011_382_867),
            ("0", 0),
            (" 60 ", 60_000_000),
            ("2025-01-12T23:11:59Z", 119_000_000),
            ("2025-01-12T23:09:00Z", 0),
            ("Sun, 12 Jan 2025 23:10:30 GMT", 30_000_000),
            ("1736723410", 10_000_000),
            ("1736723410500", 10_500_000),
        ] {
            assert_eq!(micros(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_none() {
        for text in [
            "",
            "-1",
            "-3s",
            "s",
            "1x",
            "1 s",
            "1s2",
            "1.2.3s",
            "NaN",
            "inf",
            "1e9",
            "999999999",
            "99999999999999999999",
            "99999999999999999999s",
            "401d",
            "2099-01-12T23:11:59Z",
            "+",
            "1736723410500000",
            "soon",
        ] {
            assert_eq!(micros(text), None, "{text}");
        }
    }

    #[test]
    fn an_instant_is_by_the_clock_of_the_answer_that_has_it() {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, "Sun, 12 Jan 2025 23:11:00 GMT".parse().unwrap());
        let received = Received::new(received().at(), &headers);
        let after = until("2025-01-12T23:11:59Z", received).unwrap();
        assert_eq!(after.as_micros(), 59_000_000);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = until(&text, received());
            let _ = (seconds(&text), milliseconds(&text));
        }

        #[test]
        fn a_duration_of_go_is_read_as_it_was_meant(micros in 0u64..1_000_000_000_000) {
            let (minutes, rest) = (micros / 60_000_000, micros % 60_000_000);
            let text = format!("{minutes}m{}.{:06}s", rest / 1_000_000, rest % 1_000_000);
            prop_assert_eq!(duration(&text).map(Span::as_micros), Some(micros));
        }
    }
}
