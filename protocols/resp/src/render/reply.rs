//! Answers into bytes.
//!
//! Everything is written straight into the buffer that goes out. What is a map
//! in RESP3 is a flat array of the same facts in RESP2, so that a command is
//! written once for both.

use std::fmt::{self, Display, Write as _};

/// A marker, twenty characters, and the end of the line.
const LONGEST_NUMBER: usize = 23;

/// Which of the two protocols a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Protocol {
    /// What every client begins with.
    #[default]
    Resp2,
    /// What it may ask for by HELLO.
    Resp3,
}

impl Protocol {
    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Answers that are yet to go out.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
    pub(crate) protocol: Protocol,
}

impl Replies {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what went out; keeps its room unless that is more than `most`.
    pub(crate) fn clear(&mut self, most: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(most);
    }

    #[inline]
    pub(crate) fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    pub(crate) fn simple(&mut self, text: &'static str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// `-CODE sentence`. The sentence may quote what a client has sent: no
    /// line of it must pass for an answer of ours.
    pub(crate) fn error(&mut self, code: &str, sentence: &impl Display) {
        self.bytes.push(b'-');
        self.bytes.extend_from_slice(code.as_bytes());
        self.bytes.push(b' ');
        let _ = write!(OneLine(&mut self.bytes), "{sentence}");
        self.end();
    }

    #[inline]
    pub(crate) fn integer(&mut self, number: i64) {
        match u64::try_from(number) {
            Ok(number) => self.count(number),
            Err(_) => self.number(itoa::Buffer::new().format(number)),
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, number: u64) {
        // Most numbers in answers are small: they are written in one step.
        let (tens, ones) = (b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8);
        match number {
            0..=9 => self.bytes.extend_from_slice(&[b':', ones, b'\r', b'\n']),
            10..=99 => self
                .bytes
                .extend_from_slice(&[b':', tens, ones, b'\r', b'\n']),
            _ => self.number(itoa::Buffer::new().format(number)),
        }
    }

    fn number(&mut self, digits: &str) {
        self.bytes.push(b':');
        self.line(digits);
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// A text whose lines matter (INFO), marked as such in RESP3.
    pub(crate) fn verbatim(&mut self, text: &str) {
        if self.protocol == Protocol::Resp2 {
            return self.text(text);
        }
        self.header(b'=', text.len() + 4);
        self.bytes.extend_from_slice(b"txt:");
        self.line(text);
    }

    pub(crate) fn null(&mut self) {
        let null: &[u8] = match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        };
        self.bytes.extend_from_slice(null);
    }

    pub(crate) fn boolean(&mut self, yes: bool) {
        let boolean: &[u8] = match (self.protocol, yes) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        };
        self.bytes.extend_from_slice(boolean);
    }

    #[inline]
    pub(crate) fn array(&mut self, length: usize) {
        self.header(b'*', length);
    }

    /// An array of whole numbers.
    #[inline]
    pub(crate) fn integers<const N: usize>(&mut self, numbers: [i64; N]) {
        self.bytes.reserve(LONGEST_NUMBER * (N + 1));
        self.array(N);
        numbers.into_iter().for_each(|number| self.integer(number));
    }

    /// A map of so many pairs; in RESP2 an array of twice as many.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', pairs * 2),
            Protocol::Resp3 => self.header(b'%', pairs),
        }
    }

    #[inline]
    fn header(&mut self, marker: u8, length: usize) {
        self.bytes.push(marker);
        self.line(itoa::Buffer::new().format(length));
    }

    #[inline]
    fn line(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Writes a blank for every control character.
struct OneLine<'a>(&'a mut Vec<u8>);

impl fmt::Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let printable = |byte: u8| if byte.is_ascii_control() { b' ' } else { byte };
        self.0.extend(text.bytes().map(printable));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl Fn(&mut Replies)) -> String {
        let mut replies = Replies {
            protocol,
            ..Replies::default()
        };
        write(&mut replies);
        String::from_utf8(replies.bytes).unwrap()
    }

    #[test]
    fn a_map_of_resp3_is_a_flat_array_of_resp2() {
        let write = |replies: &mut Replies| {
            replies.map(1);
            replies.text("yes");
            replies.boolean(true);
            replies.null();
            replies.verbatim("a");
        };
        assert_eq!(
            written(Protocol::Resp2, write),
            "*2\r\n$3\r\nyes\r\n:1\r\n$-1\r\n$1\r\na\r\n"
        );
        assert_eq!(
            written(Protocol::Resp3, write),
            "%1\r\n$3\r\nyes\r\n#t\r\n_\r\n=5\r\ntxt:a\r\n"
        );
    }

    #[test]
    fn no_error_is_longer_than_a_line() {
        let error = written(Protocol::Resp2, |replies| {
            replies.error("ERR", &"what is\r\n+OK\r\n?");
        });
        assert_eq!(error, "-ERR what is  +OK  ?\r\n");
    }

    #[test]
    fn integers_reach_their_ends() {
        let ends = written(Protocol::Resp2, |replies| {
            replies.integers([i64::MIN, -1, 0]);
            replies.count(u64::MAX);
        });
        assert_eq!(
            ends,
            "*3\r\n:-9223372036854775808\r\n:-1\r\n:0\r\n:18446744073709551615\r\n"
        );
        for number in [0, 9, 10, 42, 99, 100, 101, 12_345] {
            let written = written(Protocol::Resp2, |replies| replies.count(number));
            assert_eq!(written, format!(":{number}\r\n"));
        }
    }
}
