//! Arrays of bulk strings, resumed where the bytes ended.

use super::arguments::{Arguments, MAX_ARGUMENTS, Place};
use super::error::ProtocolError;
use super::inline;

/// More digits than any length that is accepted.
const MAX_DIGITS: usize = 10;

/// Reads one request after the other. What was seen of an unfinished one is
/// never looked at again, so that a client that sends byte by byte costs no
/// more than its bytes.
#[derive(Debug)]
pub struct Parser {
    max_bytes: usize,
    /// What has been read of this request.
    at: usize,
    places: Vec<Place>,
    awaited: Awaited,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaited {
    /// A request's first byte.
    Request,
    /// The end of an inline request's line.
    Line,
    /// So many arguments' headers.
    Headers(usize),
    /// An argument of this length, and so many headers after it.
    Bulk { length: usize, headers: usize },
}

/// A number between a marker and the end of its line.
struct Header {
    number: i64,
    /// Where the next line begins.
    end: usize,
}

type Parsed<T> = Result<Option<T>, ProtocolError>;

impl Parser {
    /// A parser of requests of at most `max_bytes` (no more than 1 GiB).
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes: max_bytes.min(1 << 30),
            at: 0,
            places: Vec::new(),
            awaited: Awaited::Request,
        }
    }

    /// Goes on with the request that begins at the start of `bytes`: those of
    /// the last call and whatever has come since. Answers the request's length
    /// once all of it is there; the next call begins the next one. (An inline
    /// request's quotes are taken out in place.)
    ///
    /// # Errors
    /// [`ProtocolError`]; then nothing more can be read.
    pub fn advance(&mut self, bytes: &mut [u8]) -> Parsed<usize> {
        if self.awaited == Awaited::Request {
            self.at = 0;
            self.places.clear();
            let Some(first) = bytes.first() else {
                return Ok(None);
            };
            if *first != b'*' {
                self.awaited = Awaited::Line;
            }
        }
        match self.awaited {
            Awaited::Line => self.line(bytes),
            _ => self.array(bytes),
        }
    }

    /// The arguments of the request that was finished last, which began at the
    /// start of `bytes`.
    #[must_use]
    pub fn arguments<'a>(&'a self, bytes: &'a [u8]) -> Arguments<'a> {
        Arguments {
            bytes,
            places: &self.places,
        }
    }

    fn array(&mut self, bytes: &[u8]) -> Parsed<usize> {
        loop {
            let more = match self.awaited {
                Awaited::Request => self.count(bytes)?,
                Awaited::Headers(0) => return Ok(Some(self.finish())),
                Awaited::Headers(headers) => self.length(bytes, headers - 1)?,
                Awaited::Bulk { length, headers } => self.bulk(bytes, length, headers)?,
                Awaited::Line => None,
            };
            let Some(awaited) = more else {
                return Ok(None);
            };
            self.awaited = awaited;
        }
    }

    fn count(&mut self, bytes: &[u8]) -> Parsed<Awaited> {
        let Some(header) = header(bytes, 1, ProtocolError::Count)? else {
            return Ok(None);
        };
        // As in Redis, no array at all is an empty one.
        let count = usize::try_from(header.number).unwrap_or(0);
        if count > MAX_ARGUMENTS {
            return Err(ProtocolError::Count);
        }
        self.at = header.end;
        Ok(Some(Awaited::Headers(count)))
    }

    fn length(&mut self, bytes: &[u8], headers: usize) -> Parsed<Awaited> {
        match bytes.get(self.at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(_) => return Err(ProtocolError::Type),
        }
        let Some(header) = header(bytes, self.at + 1, ProtocolError::Length)? else {
            return Ok(None);
        };
        let length = usize::try_from(header.number).map_err(|_| ProtocolError::Length)?;
        if length.saturating_add(header.end + 2) > self.max_bytes {
            return Err(ProtocolError::TooLong);
        }
        self.at = header.end;
        Ok(Some(Awaited::Bulk { length, headers }))
    }

    fn bulk(&mut self, bytes: &[u8], length: usize, headers: usize) -> Parsed<Awaited> {
        let end = self.at + length;
        let Some(line_end) = bytes.get(end..end + 2) else {
            return Ok(None);
        };
        if line_end != b"\r\n" {
            return Err(ProtocolError::LineEnd);
        }
        self.places.push(Place::new(self.at..end));
        self.at = end + 2;
        Ok(Some(Awaited::Headers(headers)))
    }

    fn line(&mut self, bytes: &mut [u8]) -> Parsed<usize> {
        let seen = bytes.len().min(self.max_bytes);
        let unseen = bytes.get(self.at..seen).unwrap_or_default();
        let Some(length) = unseen.iter().position(|&byte| byte == b'\n') else {
            self.at = seen;
            let room = seen < self.max_bytes;
            return if room {
                Ok(None)
            } else {
                Err(ProtocolError::TooLong)
            };
        };
        let end = self.at + length;
        inline::split(&mut bytes[..end], &mut self.places)?;
        self.at = end + 1;
        Ok(Some(self.finish()))
    }

    fn finish(&mut self) -> usize {
        self.awaited = Awaited::Request;
        self.at
    }
}

/// The number from `start` to the end of its line; `wrong` if it is none. A
/// wrong byte is an error as soon as it is there, whatever comes after it.
#[inline]
fn header(bytes: &[u8], start: usize, wrong: ProtocolError) -> Parsed<Header> {
    let negative = bytes.get(start) == Some(&b'-');
    let first = start + usize::from(negative);
    let mut number = 0;
    for at in first..=first + MAX_DIGITS {
        match bytes.get(at) {
            None => return Ok(None),
            Some(digit @ b'0'..=b'9') if at < first + MAX_DIGITS => {
                number = number * 10 + i64::from(digit - b'0');
            }
            Some(b'\r') if at > first => {
                let number = if negative { -number } else { number };
                return ended(bytes, at + 1, number);
            }
            Some(_) => return Err(wrong),
        }
    }
    Err(wrong)
}

fn ended(bytes: &[u8], at: usize, number: i64) -> Parsed<Header> {
    match bytes.get(at) {
        None => Ok(None),
        Some(b'\n') => Ok(Some(Header {
            number,
            end: at + 1,
        })),
        Some(_) => Err(ProtocolError::LineEnd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Parsed<(usize, Vec<String>)> {
        let mut bytes = text.as_bytes().to_vec();
        let mut parser = Parser::new(100);
        let length = parser.advance(&mut bytes)?;
        let arguments = parser.arguments(&bytes).from(0);
        let arguments = arguments.map(|a| String::from_utf8_lossy(a).into_owned());
        let arguments = arguments.collect();
        Ok(length.map(|length| (length, arguments)))
    }

    fn arguments(text: &str) -> Vec<String> {
        one(text).unwrap().unwrap().1
    }

    #[test]
    fn a_request_is_an_array_of_bulk_strings() {
        assert_eq!(
            arguments("*2\r\n$4\r\nECHO\r\n$3\r\n\r\n*\r\n"),
            ["ECHO", "\r\n*"]
        );
        assert_eq!(arguments("*1\r\n$0\r\n\r\n"), [""]);
        for empty in ["*0\r\n", "*-1\r\n", "*-9\r\n", "\r\n", "\n", "   \r\n"] {
            assert!(arguments(empty).is_empty(), "{empty:?}");
        }
    }

    #[test]
    fn the_rest_of_the_bytes_is_the_next_request() {
        let (length, _) = one("*1\r\n$4\r\nPING\r\n*1\r\n").unwrap().unwrap();
        assert_eq!(length, 14);
        assert_eq!(one("PING\nPING\n").unwrap().unwrap().0, 5);
    }

    #[test]
    fn what_is_not_all_there_is_waited_for() {
        let whole = "*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n";
        for end in 0..whole.len() {
            assert_eq!(one(&whole[..end]).unwrap(), None, "{end}");
        }
    }

    #[test]
    fn hostile_numbers_are_errors() {
        use ProtocolError::{Count, Length, LineEnd, TooLong, Type};
        for (text, error) in [
            ("*1025\r\n", Count),
            ("*99999999999", Count),
            ("*x", Count),
            ("*\r", Count),
            ("*--1\r\n", Count),
            ("*1 \r\n", Count),
            ("*1\rx", LineEnd),
            ("*1\r\n$-1\r\n", Length),
            ("*1\r\n$99999999999999999999\r\n", Length),
            ("*1\r\n$9223372036854775807\r\n", Length),
            ("*1\r\n$1a", Length),
            ("*1\r\n$95\r\n", TooLong),
            ("*1\r\n$2\r\nabc\r", LineEnd),
            ("*1\r\n*1\r\n", Type),
            ("*1\r\n:5\r\n", Type),
        ] {
            assert_eq!(one(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn a_line_longer_than_a_request_is_an_error() {
        assert_eq!(one(&"x".repeat(99)), Ok(None));
        assert_eq!(one(&"x".repeat(100)), Err(ProtocolError::TooLong));
        let late = "x".repeat(100) + "\n";
        assert_eq!(one(&late), Err(ProtocolError::TooLong));
    }
}
