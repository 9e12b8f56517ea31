//! What a session of OpenAI's Realtime API is told.

use http::HeaderMap;
use proptest::prelude::*;
use tidegate_llm::{Received, Signals, Unit};

use super::{NOW, rows};

fn heard(event: &[u8]) -> Signals {
    Signals::of_event(event, Received::new(NOW, &HeaderMap::new()))
}

fn updated(limits: &str) -> Signals {
    let event = format!(r#"{{"type":"rate_limits.updated","rate_limits":[{limits}],"more":1}}"#);
    heard(event.as_bytes())
}

#[test]
fn limits_of_a_session_are_those_that_headers_tell() {
    let told = updated(
        r#"{"name":"requests","limit":1000,"remaining":999,"reset_seconds":60},
        {"name":"tokens","limit":50000,"remaining":49950,"reset_seconds":0.06},
        {"name":"input_tokens","limit":40000,"remaining":40000,"reset_seconds":1e-7},
        {"name":"output_tokens","remaining":7}"#,
    );
    assert_eq!(
        rows(&told),
        [
            (
                "requests",
                Unit::Requests,
                Some(1_000),
                Some(999),
                Some(60_000)
            ),
            ("tokens", Unit::Tokens, Some(50_000), Some(49_950), Some(60)),
            (
                "input-tokens",
                Unit::InputTokens,
                Some(40_000),
                Some(40_000),
                Some(0)
            ),
            ("output-tokens", Unit::OutputTokens, None, Some(7), None),
        ]
    );
    assert_eq!((told.retry_after, told.ignored), (None, 0));
}

#[test]
fn what_cannot_be_in_an_event_is_left_out_and_counted() {
    let told = updated(
        r#"{"name":"requests","limit":-3,"remaining":5,"reset_seconds":-1},
        {"name":"tokens","limit":1e300,"remaining":9007199254740992,"reset_seconds":1e300},
        {"name":"b\u00e4d name","limit":1}"#,
    );
    assert_eq!(
        rows(&told),
        [("requests", Unit::Requests, None, Some(5), None)]
    );
    assert_eq!(told.ignored, 5);
}

#[test]
fn other_events_say_nothing() {
    let long = format!(
        r#"{{"type":"rate_limits.updated","rate_limits":[],"more":"{}"}}"#,
        "x".repeat(64 << 10)
    );
    let cut = r#"{"type":"rate_limits.updated","rate_limits":[{"name":"tokens","limit":1"#;
    for event in [
        r#"{"type":"session.updated","rate_limits":[{"name":"tokens","limit":1}]}"#,
        r#"{"type":"rate_limits.updated"}"#,
        r#"{"type":"rate_limits.updated","rate_limits":"none"}"#,
        cut,
        &long,
        "",
    ] {
        assert_eq!(heard(event.as_bytes()), Signals::default(), "{event:.80}");
    }
}

proptest! {
    #[test]
    fn any_event_is_read_or_says_nothing(event: Vec<u8>) {
        heard(&event);
    }
}
