//! When to come again, in each way to say it.

use tidegate_llm::Provider;

use super::{read, rows};

/// Twelve seconds before what tests say.
const DATE: (&str, &str) = ("date", "Sun, 12 Jan 2025 23:11:48 GMT");

/// Milliseconds.
fn retry_after(lines: &[(&str, &str)]) -> Option<u64> {
    let after = read(Provider::Generic, lines).retry_after;
    after.map(|after| after.as_micros() / 1_000)
}

#[test]
fn retry_after_is_seconds_with_a_fraction_or_an_instant() {
    for (text, expected) in [
        ("7", 7_000),
        ("0", 0),
        ("1.5", 1_500),
        ("0.25", 250),
        (".5", 500),
        (" 3 ", 3_000),
        ("50.597142857", 50_597),
        ("86400", 86_400_000),
        // No instant, however large: a span that is believed.
        ("20000000", 20_000_000_000),
        ("2s", 2_000),
        ("2025-01-12T23:12:00Z", 12_000),
        ("2025-01-13T00:12:00.5+01:00", 12_500),
        ("Sun, 12 Jan 2025 23:12:00 GMT", 12_000),
        ("Sun, 12 Jan 2025 23:11:00 GMT", 0),
    ] {
        let lines = [DATE, ("retry-after", text)];
        assert_eq!(retry_after(&lines), Some(expected), "{text}");
    }
}

/// Without a `Date` it is by our clock, which says 23:11:00.
#[test]
fn an_instant_is_by_our_clock_where_the_answer_has_none() {
    let at = ("retry-after", "Sun, 12 Jan 2025 23:12:00 GMT");
    assert_eq!(retry_after(&[at]), Some(60_000));
    assert_eq!(retry_after(&[("date", "today"), at]), Some(60_000));
}

#[test]
fn a_retry_after_that_is_none_is_counted_and_the_next_name_is_read() {
    for text in [
        "-1",
        "-0.5",
        "1,5",
        "NaN",
        "Infinity",
        "1e3",
        "0x10",
        "",
        "40000000000",
        "Sun, 32 Jan 2025 23:12:00 GMT",
        "2025-13-12T23:12:00Z",
    ] {
        let signals = read(Provider::Generic, &[("retry-after", text)]);
        assert_eq!((signals.retry_after, signals.ignored), (None, 1), "{text}");
        let lines = [("retry-after-ms", text), ("retry-after", "3")];
        assert_eq!(retry_after(&lines), Some(3_000), "{text}");
    }
}

#[test]
fn milliseconds_go_before_seconds() {
    let lines = [("retry-after", "9"), ("retry-after-ms", "1250.5")];
    assert_eq!(retry_after(&lines), Some(1_250));
}

#[test]
fn a_reset_of_no_certain_provider_is_told_by_its_form() {
    for (text, expected) in [
        ("12", 12_000),
        ("12.5", 12_500),
        ("0", 0),
        ("1m12s", 72_000),
        ("1736723520", 12_000),
        ("1736723520.5", 12_500),
        ("1736723520000", 12_000),
        ("2025-01-12T23:12:00Z", 12_000),
        ("2025-01-12T23:12:00.000Z", 12_000),
        ("2025-01-12T18:12:00-05:00", 12_000),
        ("Sun, 12 Jan 2025 23:12:00 GMT", 12_000),
    ] {
        for prefix in ["ratelimit", "x-ratelimit", "x-rate-limit"] {
            let name = |part: &str| format!("{prefix}-{part}");
            let (remaining, reset) = (name("remaining"), name("reset"));
            let lines = [DATE, (&*remaining, "4"), (&*reset, text)];
            let signals = read(Provider::Generic, &lines);
            let reset = rows(&signals)[0].4;
            // Rows are by our clock, which is 48 s behind the answer's: what is told is a span.
            assert_eq!(reset, Some(expected), "{prefix} {text}");
        }
    }
}

/// Of numbers between those of spans and of instants nobody knows which they are.
#[test]
fn a_reset_that_may_be_anything_is_none() {
    for text in [
        "10000000",
        "999999999",
        "4000000001",
        "999999999999",
        "4000000000001",
        "-1",
    ] {
        let lines = [("x-ratelimit-remaining", "4"), ("x-ratelimit-reset", text)];
        let signals = read(Provider::Generic, &lines);
        assert_eq!((rows(&signals)[0].4, signals.ignored), (None, 1), "{text}");
    }
}
