//! The last event of a stream that was asked for its usage by the gateway and not by the caller:
//! it is taken out again.

use bytes::{Bytes, BytesMut};
use memchr::memmem;

/// An event that is longer passes as it is.
const LONGEST: usize = 1024 * 1024;

/// Lets events through, one behind the other, but for those that have nothing but usage.
#[derive(Debug, Default)]
pub struct WithoutUsage {
    /// An event whose end has not come.
    begun: BytesMut,
}

impl WithoutUsage {
    /// What passes of the events that a chunk completes.
    pub fn pass(&mut self, chunk: &[u8]) -> Bytes {
        self.begun.extend_from_slice(chunk);
        let mut passed = BytesMut::with_capacity(self.begun.len());
        while let Some(end) = end_of_event(&self.begun) {
            let event = self.begun.split_to(end);
            if !is_usage_alone(&event) {
                passed.extend_from_slice(&event);
            }
        }
        if self.begun.len() > LONGEST {
            passed.extend_from_slice(&self.begun.split());
        }
        passed.freeze()
    }

    /// What is left at the end.
    pub fn rest(&mut self) -> Bytes {
        self.begun.split().freeze()
    }
}

/// Where an event ends: behind an empty line.
fn end_of_event(bytes: &[u8]) -> Option<usize> {
    let lf = memmem::find(bytes, b"\n\n").map(|at| at + 2);
    let crlf = memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4);
    match (lf, crlf) {
        (Some(lf), Some(crlf)) => Some(lf.min(crlf)),
        (lf, crlf) => lf.or(crlf),
    }
}

/// `data: {..., "choices": [], ..., "usage": {...}}`.
fn is_usage_alone(event: &[u8]) -> bool {
    if memmem::find(event, b"\"usage\"").is_none() {
        return false;
    }
    let data = event.trim_ascii().strip_prefix(b"data:");
    let data = data.and_then(|data| serde_json::from_slice::<serde_json::Value>(data).ok());
    data.is_some_and(|data| {
        let choices = data.get("choices").and_then(|choices| choices.as_array());
        choices.is_some_and(Vec::is_empty)
            && data.get("usage").is_some_and(|usage| usage.is_object())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\"\"}}],\"usage\":null}\n\n\
        : a comment\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n\
        data: [DONE]\n\n";

    #[test]
    fn the_event_of_usage_alone_is_taken_out_wherever_chunks_end() {
        for stream in [STREAM.to_owned(), STREAM.replace('\n', "\r\n")] {
            let from = stream.find("data: {\"choices\":[],").unwrap();
            let to = stream.find("data: [DONE]").unwrap();
            let expected = format!("{}{}", &stream[..from], &stream[to..]);
            for size in 1..stream.len() {
                let mut events = WithoutUsage::default();
                let mut passed = Vec::new();
                for chunk in stream.as_bytes().chunks(size) {
                    passed.extend_from_slice(&events.pass(chunk));
                }
                passed.extend_from_slice(&events.rest());
                assert_eq!(String::from_utf8(passed).unwrap(), expected, "{size}");
            }
        }
    }

    #[test]
    fn an_event_without_end_is_not_kept_and_a_broken_stream_passes_whole() {
        let mut events = WithoutUsage::default();
        let mut passed = 0;
        for _ in 0..40 {
            passed += events.pass(&[b'x'; 64 * 1024]).len();
            assert!(events.begun.len() <= LONGEST + 64 * 1024);
        }
        assert_eq!(passed + events.rest().len(), 40 * 64 * 1024);
    }
}
