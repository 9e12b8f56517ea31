//! An answer as it comes, and what its call has used once it ends.

use http::{HeaderMap, HeaderValue, header};
use tidegate_core::Amount;

use crate::estimate::Reserved;
use crate::provider::Provider;
use crate::request::Request;
use crate::usage::{StreamReader, Usage};

/// An answer that is no stream is kept to be read up to this length.
pub const LONGEST_ANSWER: usize = 8 * 1024 * 1024;

/// Of a longer one so much of the end is: most say their usage there.
const END: usize = 64 * 1024;

/// Where an answer says what its call has used.
#[derive(Clone, Debug)]
pub enum Answer {
    /// In events.
    Stream(StreamReader),
    /// In one JSON object, or in one list of them.
    Object(Object),
    /// Nowhere.
    Nothing,
}

/// A JSON object, or a list of them: all of it, or the end of a long one.
#[derive(Clone, Debug, Default)]
pub struct Object {
    kept: Vec<u8>,
    is_long: bool,
}

impl Object {
    fn read(&mut self, data: &[u8]) {
        self.kept.extend_from_slice(data);
        let most = match self.is_long {
            true => 2 * END,
            false => LONGEST_ANSWER,
        };
        if self.kept.len() > most {
            self.is_long = true;
            // In a place of its own: what it was kept in is large.
            self.kept = self.kept[self.kept.len() - END..].to_vec();
        }
    }

    /// What it says, of which that is all or what came before it broke off.
    fn usage(&self, complete: bool) -> Usage {
        match (self.is_long, complete) {
            (false, _) => Usage::of_body(&self.kept),
            (true, true) => Usage::of_end(&self.kept),
            (true, false) => Usage::default(),
        }
    }
}

impl Answer {
    /// One that begins with these headers, of a call that uses tokens.
    #[must_use]
    pub fn begin(headers: &HeaderMap) -> Self {
        // Some compress whatever they are asked for.
        if encoding(headers).is_some() {
            Self::Nothing
        } else if is_stream(headers) {
            Self::Stream(StreamReader::new())
        } else {
            Self::Object(Object::default())
        }
    }

    /// Reads on. Its memory is bounded: of an object longer than [`LONGEST_ANSWER`] its end is kept.
    pub fn read(&mut self, data: &[u8]) {
        match self {
            Self::Stream(reader) => reader.read(data),
            Self::Object(object) => object.read(data),
            Self::Nothing => {}
        }
    }

    /// It has ended: `complete`, or broken off. `request` is what it answers, and `headers` what those
    /// say of its usage.
    #[must_use]
    pub fn end(
        &self,
        provider: Provider,
        request: &Request,
        headers: Usage,
        complete: bool,
    ) -> Ended {
        let (said, came, whole) = match self {
            Self::Stream(stream) => {
                // Only Gemini's streams end without a word.
                let ended = complete && provider == Provider::Gemini || stream.has_ended();
                let came = request.bounded(stream.output());
                (stream.usage(), Some(came), ended)
            }
            Self::Object(object) => {
                let said = object.usage(complete);
                (said, None, complete || said.is_known())
            }
            Self::Nothing => (Usage::default(), None, complete),
        };
        Ended {
            said: headers.then(said),
            came,
            whole,
        }
    }
}

/// What an answer has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// What it has said of its usage.
    pub said: Usage,
    /// Of a stream: how many tokens came, by events and lengths, [as its bound has
    /// it](Request::bounded).
    pub came: Option<Amount>,
    /// Whether it came whole.
    pub whole: bool,
}

impl Ended {
    /// Whether it is whole, and has said its usage.
    #[must_use]
    pub fn is_said(&self) -> bool {
        self.whole && self.said.is_known()
    }

    /// What is charged: what it said, and as reserved what it did not say, or more if that came; of a
    /// stream that broke off, or brought more than was reserved, [what came](Self::by_length). `None`:
    /// what was reserved, which is what was taken for it if limits are smaller than an estimate. A provider has made all of an answer that is no stream before it begins.
    #[must_use]
    pub fn usage(&self, reserved: Reserved) -> Option<Usage> {
        let came = self.came.unwrap_or(0);
        if self.is_said() {
            let prompt = (self.said.prompt() == 0).then_some(reserved.input);
            return Some(Usage {
                input: self.said.input.or(prompt),
                output: self.said.output.or(Some(reserved.output.max(came))),
                ..self.said
            });
        }
        match self.whole && came <= reserved.output {
            true => None,
            false => self.by_length(reserved),
        }
    }

    /// Of a stream: its prompt, and of the answer what came, if it says no more.
    #[must_use]
    pub fn by_length(&self, reserved: Reserved) -> Option<Usage> {
        let came = self.came?;
        Some(Usage {
            input: self.said.input.or(Some(reserved.input)),
            output: Some(self.said.output.unwrap_or(0).max(came)),
            ..self.said
        })
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let mut parts = value
        .map_or(&b""[..], HeaderValue::as_bytes)
        .split(|byte| *byte == b';');
    let kind = parts.next().unwrap_or_default().trim_ascii();
    kind.eq_ignore_ascii_case(b"text/event-stream")
}

/// By what a body is compressed, if it is, so that it says nothing here.
#[must_use]
pub fn encoding(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let is_none = |value: &[u8]| value.is_empty() || value.eq_ignore_ascii_case(b"identity");
    encodings.find(|value| !is_none(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVED: Reserved = Reserved {
        input: 8,
        output: 40,
    };

    fn ended(headers: &[(&str, &str)], body: &str, complete: bool) -> Ended {
        answered(&Request::default(), headers, body, complete)
    }

    fn answered(request: &Request, headers: &[(&str, &str)], body: &str, complete: bool) -> Ended {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.insert(name, value.parse().unwrap());
        }
        let mut answer = Answer::begin(&map);
        for byte in body.as_bytes().chunks(1) {
            answer.read(byte);
        }
        answer.end(Provider::OpenAi, request, Usage::default(), complete)
    }

    fn charged(headers: &[(&str, &str)], body: &str, complete: bool) -> Option<(u64, u64)> {
        let usage = ended(headers, body, complete).usage(RESERVED)?;
        Some((usage.prompt(), usage.output.unwrap_or(0)))
    }

    #[test]
    fn an_answer_is_charged_what_it_says_or_what_came_or_what_was_reserved() {
        let said = r#"{"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;
        let json = &[("content-type", "application/json")][..];
        let events = &[("content-type", "text/event-stream; charset=utf-8")][..];
        assert_eq!(charged(json, said, true), Some((9, 3)));
        assert_eq!(
            charged(json, said, false),
            Some((9, 3)),
            "it was read before"
        );
        assert_eq!(charged(json, "{", true), None);
        assert_eq!(charged(json, "{", false), None, "it was made whole");
        let packed = &[("content-encoding", "gzip")][..];
        assert_eq!(charged(packed, said, true), None);
        let one = r#"{"usage":{"prompt_tokens":9}}"#;
        assert_eq!(charged(json, one, true), Some((9, 40)), "as reserved");

        let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"high\"}}]}\n\n";
        let stream = format!("{piece}{piece}");
        assert_eq!(charged(events, &stream, false), Some((8, 2)));
        assert_eq!(charged(events, &stream, true), Some((8, 2)), "not its end");
        let whole = format!("{stream}data: [DONE]\n\n");
        assert_eq!(charged(events, &whole, true), None);
        let by_length = ended(events, &whole, true).by_length(RESERVED).unwrap();
        assert_eq!(by_length.output, Some(3));
        let long = format!("{}data: [DONE]\n\n", piece.repeat(60));
        assert_eq!(charged(events, &long, true), Some((8, 61)));
        let told = format!("{stream}data: {said}\n\ndata: [DONE]\n\n");
        assert_eq!(
            charged(events, &told, false),
            Some((9, 3)),
            "it said its end"
        );
    }

    /// The events that say who speaks, why a stream ends and that it has ended were charged beyond what the
    /// answer could have.
    #[test]
    fn a_stream_is_charged_no_more_than_its_bound_unless_far_more_came() {
        let events = &[("content-type", "text/event-stream")][..];
        let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"high\"}}]}\n\n";
        let request = Request {
            max_output: Some(40),
            answers: 1,
            ..Request::default()
        };
        let charged = |many: usize, end: &str| {
            let stream = piece.repeat(many) + end;
            let ended = answered(&request, events, &stream, true);
            let usage = ended.usage(RESERVED).map(|usage| usage.output.unwrap());
            (usage, ended.by_length(RESERVED).unwrap().output.unwrap())
        };
        let end = "data: [DONE]\n\n";
        assert_eq!(charged(42, end), (None, 40), "as reserved");
        assert_eq!(charged(43, ""), (Some(40), 40), "broken off");
        assert_eq!(charged(80, end), (Some(81), 81));
        // It says its prompt alone.
        let said = r#"data: {"usage":{"prompt_tokens":9}}"#;
        let end = format!("{said}\n\n{end}");
        assert_eq!(charged(98, &end).0, Some(100));
    }

    #[test]
    fn of_an_answer_that_is_too_long_the_end_is_kept() {
        let mut answer = Answer::begin(&HeaderMap::new());
        let part = vec![b' '; LONGEST_ANSWER / 2];
        for _ in 0..3 {
            answer.read(&part);
        }
        let Answer::Object(object) = &answer else {
            panic!("it is an object")
        };
        assert!(object.kept.capacity() <= 2 * END + part.len());
    }
}
