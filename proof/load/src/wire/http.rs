//! HTTP/1.1 with connections kept alive; asks may be sent ahead of answers.

use std::borrow::Cow;

use super::exchange::{Answer, Around, LeaseId, Step, Wire, write_length};
use crate::policy::{Asking, Question};

/// More header fields than a server of ours sends.
const MOST_FIELDS: usize = 48;

/// A longer chunk of an answer is none.
const LONGEST_CHUNK: u64 = 1024 * 1024;

/// Asks by requests.
pub struct Http {
    ask: Request,
    settle: Request,
    raw: bool,
}

/// A request with a key in its path or body.
struct Request {
    line: Around,
    fields: String,
    body: Around,
    /// What stands after the lease, where there is one.
    tail: String,
}

impl Http {
    /// Asks the server that calls itself `host`, with these further header fields.
    pub fn new(question: &Question, host: &str, token: Option<&str>, more: &[String]) -> Self {
        let token = token.map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
        let more: String = more.iter().map(|field| format!("{field}\r\n")).collect();
        let fields = format!("Host: {host}\r\n{token}{more}");
        let json = fields.clone() + "Content-Type: application/json\r\n";
        let request = |method: &str, path: &str, body: &str, tail: &str| Request {
            line: Around::of(&format!("{method} {path} HTTP/1.1\r\n"), question),
            fields: if body.is_empty() {
                fields.clone()
            } else {
                json.clone()
            },
            body: Around::of(body, question),
            tail: tail.to_owned(),
        };
        let (path, policy) = match &question.asking {
            Asking::Policy { name, lease, .. } => {
                let path = if *lease { "/v1/acquire" } else { "/v1/check" };
                (path, serde_json::Value::from(name.as_str()).to_string())
            }
            _ => ("", String::new()),
        };
        let ask = match &question.asking {
            Asking::Raw(text) => {
                let mut words = text.splitn(3, ' ');
                let mut word = || words.next().unwrap_or_default();
                request(word(), word(), word(), "")
            }
            _ => request("POST", path, &body(question, &policy), ""),
        };
        let settle = format!("{{\"policy\":{policy},\"key\":\"{{key}}\",\"lease\":\"");
        Self {
            ask,
            settle: request("POST", "/v1/settle", &settle, "\"}"),
            raw: matches!(question.asking, Asking::Raw(_)),
        }
    }
}

fn body(question: &Question, policy: &str) -> String {
    let mut body = format!(
        "{{\"policy\":{policy},\"key\":\"{{key}}\",\"cost\":{}",
        question.cost
    );
    if !question.left_out.is_empty() {
        let none = |name: &String| (name.clone(), serde_json::Value::from(0));
        let amounts: serde_json::Map<_, _> = question.left_out.iter().map(none).collect();
        body += &format!(",\"amounts\":{}", serde_json::Value::Object(amounts));
    }
    body + "}"
}

impl Request {
    fn write(&self, key: u32, lease: &[u8], out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(key);
        self.line.write(digits, out);
        out.extend_from_slice(self.fields.as_bytes());
        out.extend_from_slice(b"Content-Length: ");
        let length = self.body.len(digits) + lease.len() + self.tail.len();
        write_length(length, out);
        out.extend_from_slice(b"\r\n\r\n");
        self.body.write(digits, out);
        out.extend_from_slice(lease);
        out.extend_from_slice(self.tail.as_bytes());
    }
}

impl Wire for Http {
    /// Every request says who it is from.
    fn greet(&self, _: &mut Vec<u8>) -> bool {
        false
    }

    fn ask(&mut self, key: u32, out: &mut Vec<u8>) {
        self.ask.write(key, &[], out);
    }

    fn settle(&mut self, key: u32, lease: &LeaseId, out: &mut Vec<u8>) {
        self.settle.write(key, lease, out);
    }

    fn answer(&self, bytes: &[u8], step: Step) -> Result<Option<(usize, Answer)>, String> {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut head = httparse::Response::new(&mut fields);
        let start = match head.parse(bytes).map_err(|error| error.to_string())? {
            httparse::Status::Complete(start) => start,
            httparse::Status::Partial => return Ok(None),
        };
        let status = head.code.unwrap_or(0);
        let Some((body, length)) = body_of(head.headers, &bytes[start..])? else {
            return Ok(None);
        };
        let body = &*body;
        let answer = match status {
            200..=299 if step == Step::Ask && !self.raw => Answer::Admitted(lease(body)),
            200..=299 => Answer::Done,
            429 if find(body, b"\"code\":\"refused\"").is_some() => Answer::Refused,
            _ => {
                let words = &body[..body.len().min(300)];
                Answer::Failed(format!("{status} {}", String::from_utf8_lossy(words)))
            }
        };
        Ok(Some((start + length, answer)))
    }
}

/// A body, and how many bytes it takes.
type Measured<'b> = (Cow<'b, [u8]>, usize);

/// A body; nothing while it has not come as a whole.
fn body_of<'b>(
    fields: &[httparse::Header<'_>],
    bytes: &'b [u8],
) -> Result<Option<Measured<'b>>, String> {
    if let Some(length) = length(fields) {
        return Ok(bytes.get(..length).map(|body| (body.into(), length)));
    }
    let is_chunked = |field: &httparse::Header<'_>| {
        field.name.eq_ignore_ascii_case("transfer-encoding")
            && field.value.eq_ignore_ascii_case(b"chunked")
    };
    if !fields.iter().any(is_chunked) {
        return Err("an answer does not say how long it is".to_owned());
    }
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let (line, size) = match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err("a chunk of an answer does not say how long it is".to_owned()),
        };
        if size > LONGEST_CHUNK {
            return Err("a chunk of an answer is longer than a megabyte".to_owned());
        }
        let (from, size) = (at + line, size as usize);
        // An end of line stands behind it.
        at = from + size + 2;
        if bytes.len() < at {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some((body.into(), at)));
        }
        body.extend_from_slice(&bytes[from..from + size]);
    }
}

/// The length of the body; nothing if it is told some other way.
fn length(fields: &[httparse::Header<'_>]) -> Option<usize> {
    let is = |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case("content-length");
    let value = fields.iter().find(is)?.value;
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// The id of the lease that was granted, where one was.
fn lease(body: &[u8]) -> Option<LeaseId> {
    let named = b"\"lease\":{\"id\":\"";
    let start = find(body, named)? + named.len();
    body.get(start..start + 32)?.try_into().ok()
}

fn find(bytes: &[u8], words: &[u8]) -> Option<usize> {
    bytes
        .windows(words.len())
        .position(|window| window == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_how_long_its_body_is() {
        let mut http = Http::new(
            &Question::policy("p", false),
            "x",
            Some("t"),
            &["A: b".to_owned()],
        );
        let mut out = Vec::new();
        http.ask(3, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "POST /v1/check HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nA: b\r\n\
             Content-Type: application/json\r\nContent-Length: 36\r\n\r\n\
             {\"policy\":\"p\",\"key\":\"k3\",\"cost\":1}"
                .replace("36", "34")
        );
    }

    #[test]
    fn an_answer_in_chunks_is_read_when_the_last_is_there() {
        let http = Http::new(&Question::policy("p", true), "x", None, &[]);
        let id = "0123456789abcdef0123456789abcdef";
        let text = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
             c\r\n{{\"lease\":{{\"i\r\n28\r\nd\":\"{id}\"}}}}.\r\n0\r\n\r\n"
        );
        for end in 0..text.len() {
            assert_eq!(http.answer(&text.as_bytes()[..end], Step::Ask), Ok(None));
        }
        let lease = Some(id.as_bytes().try_into().unwrap());
        let whole = http.answer(text.as_bytes(), Step::Ask);
        assert_eq!(whole, Ok(Some((text.len(), Answer::Admitted(lease)))));
        for wrong in ["", "Transfer-Encoding: chunked\r\n"] {
            let text = format!("HTTP/1.1 200 OK\r\n{wrong}\r\nffffffff\r\n");
            assert!(http.answer(text.as_bytes(), Step::Ask).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_is_read_when_all_of_it_is_there() {
        let http = Http::new(&Question::policy("p", true), "x", None, &[]);
        let body = "{\"admitted\":true,\"lease\":{\"id\":\"0123456789abcdef0123456789abcdef\"}}";
        let text = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        for end in 0..text.len() {
            assert_eq!(http.answer(&text.as_bytes()[..end], Step::Ask), Ok(None));
        }
        let lease = Some(*b"0123456789abcdef0123456789abcdef");
        let whole = http.answer(text.as_bytes(), Step::Ask);
        assert_eq!(whole, Ok(Some((text.len(), Answer::Admitted(lease)))));
        let refused = "HTTP/1.1 429 No\r\ncontent-length: 18\r\n\r\n{\"code\":\"refused\"}";
        let refused = http.answer(refused.as_bytes(), Step::Ask);
        assert_eq!(refused, Ok(Some((57, Answer::Refused))));
        assert!(http.answer(b"-ERR\r\n", Step::Ask).is_err());
    }
}
