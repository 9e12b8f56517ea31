//! What a provider's answer has: headers, a body, a stream in chunks. Whatever comes, numbers stay
//! within their bounds, and a stream says the same wherever its chunks end.
//!
//! Lines with headers, an empty line, and a body. A line that can be no header is left out.

#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use tidegate_core::{MAX_AMOUNT, Span, Timestamp};
use tidegate_fuzz::Feed;
use tidegate_llm::headers::MOST_OBSERVATIONS;
use tidegate_llm::{Asked, Provider, Received, Refusal, Request, Signals, StreamReader, Usage};

const NOW: Timestamp = Timestamp::from_micros(1_736_723_460_000_000);

fuzz_target!(|bytes: &[u8]| {
    let mut feed = Feed::new(bytes);
    let headers = headers(&mut feed);
    let body = feed.rest();
    let received = Received::new(NOW, &headers);
    let may_end = NOW..=NOW + Span::LONGEST_PERIOD;
    let is_within_bounds = |signals: &Signals| {
        assert!(signals.observations.len() <= MOST_OBSERVATIONS);
        for seen in &signals.observations {
            assert!(seen.limit.is_none_or(|limit| limit <= MAX_AMOUNT));
            assert!(seen.remaining.is_none_or(|left| left <= MAX_AMOUNT));
            assert!(seen.reset_at.is_none_or(|at| may_end.contains(&at)));
        }
    };
    is_within_bounds(&Signals::of_event(body, received));
    for provider in Provider::all() {
        let signals = Signals::read(provider, &headers, received);
        is_within_bounds(&signals);
        let cached = headers.get("age").and_then(|age| age.to_str().ok());
        assert!(cached.is_none_or(|age| age.trim() == "0") || signals == Signals::default());
        let refusal = Refusal::of(provider, 429, &headers, &signals, body, received);
        let after = refusal.expect("a refusal").retry_after;
        assert!(after.is_none_or(|after| after <= Span::LONGEST_PERIOD));
    }
    assert!(Usage::of_headers(&headers).total() <= MAX_AMOUNT);
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

fn headers(feed: &mut Feed<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    loop {
        let line = feed.rest_until(b'\n').trim_ascii();
        if line.is_empty() {
            return headers;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            // As many as a connection lets through.
            if headers.len() < 100 {
                headers.append(name, value);
            }
        }
    }
}
