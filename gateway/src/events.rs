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
    /// Whether the event passed that the last chunk ended with a CR: an LF would be its end, too.
    ended_by_cr: Option<bool>,
}

impl WithoutUsage {
    /// What passes of the events that a chunk completes.
    pub fn pass(&mut self, chunk: &[u8]) -> Bytes {
        self.begun.extend_from_slice(chunk);
        let mut passed = BytesMut::with_capacity(self.begun.len());
        if let Some(has_passed) = self.ended_by_cr.filter(|_| !chunk.is_empty()) {
            self.ended_by_cr = None;
            if self.begun.first() == Some(&b'\n') {
                let rest = self.begun.split_to(1);
                passed.extend_from_slice(if has_passed { &rest } else { &[] });
            }
        }
        while let Some(end) = end_of_event(&self.begun) {
            let event = self.begun.split_to(end);
            let passes = !is_usage_alone(&event);
            if passes {
                passed.extend_from_slice(&event);
            }
            if self.begun.is_empty() && event.ends_with(b"\r") {
                self.ended_by_cr = Some(passes);
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

/// Where an event ends: behind an empty line. Lines end with LF, CRLF or CR alone.
fn end_of_event(bytes: &[u8]) -> Option<usize> {
    let ends = memchr::memchr2_iter(b'\n', b'\r', bytes);
    ends.filter_map(|at| {
        let next = at + end_of_line(&bytes[at..])?;
        Some(next + end_of_line(bytes.get(next..)?)?)
    })
    .next()
}

/// The length of the end of a line that is next, if it is.
fn end_of_line(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\r', b'\n', ..] => Some(2),
        [b'\n' | b'\r', ..] => Some(1),
        _ => None,
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
        let ends = ["\n", "\r\n", "\r"];
        for stream in ends.map(|end| STREAM.replace('\n', end)) {
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
    fn an_event_whose_lines_end_with_cr_alone_passes_when_it_ends() {
        let mut events = WithoutUsage::default();
        assert_eq!(events.pass(b"data: 1\r"), "");
        assert_eq!(events.pass(b"\r"), "data: 1\r\r");
        assert_eq!(events.pass(b"data: 2\r\rdata"), "data: 2\r\r");
        assert_eq!(events.rest(), "data");
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
