//! What a provider's answer has: headers, a body, a stream in chunks. Whatever comes, numbers stay
//! within their bounds, and a stream says the same wherever its chunks end.
//!
//! The first line of the bytes are a header's name and value, the rest a body.

#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use tidegate_core::{MAX_AMOUNT, Timestamp};
use tidegate_llm::{Asked, Provider, Received, Refusal, Request, Signals, StreamReader, Usage};

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (line, body) = bytes.split_at(end);
    let mut headers = HeaderMap::new();
    let mut parts = line.splitn(2, |byte| *byte == b':');
    if let (Some(name), Some(value)) = (parts.next(), parts.next())
        && let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
    {
        headers.insert(name, value);
    }
    let received = Received::new(Timestamp::from_micros(1_736_723_460_000_000), &headers);
    for provider in Provider::all() {
        let signals = Signals::read(provider, &headers, received);
        for seen in &signals.observations {
            assert!(seen.limit.is_none_or(|limit| limit <= MAX_AMOUNT));
            assert!(seen.remaining.is_none_or(|left| left <= MAX_AMOUNT));
        }
        let refusal = Refusal::of(provider, 429, &headers, &signals, body, received);
        assert!(refusal.is_some());
    }
    let asked = Asked::of(&Method::POST, "/v1/chat/completions", &headers);
    if let Ok(request) = Request::read(&asked, body) {
        assert!(request.prompt <= MAX_AMOUNT && request.answers >= 1);
    }
    assert!(Usage::of_body(body).total() <= MAX_AMOUNT);
    stream(body);
});

fn stream(body: &[u8]) {
    let (mut whole, mut parts) = (StreamReader::new(), StreamReader::new());
    whole.read(body);
    for chunk in body.chunks(7) {
        parts.read(chunk);
    }
    assert_eq!(whole.usage(), parts.usage());
    assert_eq!(
        (whole.events(), whole.has_ended()),
        (parts.events(), parts.has_ended())
    );
}
