//! Lines as people type them, into `telnet` or a pipe.
//!
//! Words are divided by blanks; `"..."` may hold blanks and escapes (`\n`,
//! `\x1f`), `'...'` blanks and `\'`. Taking quotes out only ever shortens a
//! word, so that it is done in place.

use super::arguments::{MAX_ARGUMENTS, Place};
use super::error::ProtocolError;

/// Finds the words of `line`.
pub(super) fn split(line: &mut [u8], places: &mut Vec<Place>) -> Result<(), ProtocolError> {
    let mut line = Line {
        bytes: line,
        read: 0,
        written: 0,
    };
    while line.skip_blanks() {
        if places.len() == MAX_ARGUMENTS {
            return Err(ProtocolError::Count);
        }
        let start = line.written;
        line.word()?;
        places.push(Place::new(start..line.written));
    }
    Ok(())
}

/// A line whose beginning is being replaced by what it means.
struct Line<'a> {
    bytes: &'a mut [u8],
    read: usize,
    written: usize,
}

impl Line<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.read).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.read += 1;
        Some(byte)
    }

    fn write(&mut self, byte: u8) {
        self.bytes[self.written] = byte;
        self.written += 1;
    }

    fn at_blank(&self) -> bool {
        self.peek().is_none_or(is_blank)
    }

    /// Whether a word follows.
    fn skip_blanks(&mut self) -> bool {
        while self.peek().is_some_and(is_blank) {
            self.read += 1;
        }
        self.peek().is_some()
    }

    fn word(&mut self) -> Result<(), ProtocolError> {
        while !self.at_blank() {
            match self.next() {
                Some(quote @ (b'"' | b'\'')) => self.quoted(quote)?,
                Some(byte) => self.write(byte),
                None => {}
            }
        }
        Ok(())
    }

    /// What stands between quotes; a blank must follow it.
    fn quoted(&mut self, quote: u8) -> Result<(), ProtocolError> {
        loop {
            match self.next().ok_or(ProtocolError::Quotes)? {
                b'\\' if quote == b'"' => self.escape()?,
                b'\\' if self.peek() == Some(b'\'') => {
                    self.read += 1;
                    self.write(b'\'');
                }
                byte if byte == quote => break,
                byte => self.write(byte),
            }
        }
        if self.at_blank() {
            return Ok(());
        }
        Err(ProtocolError::Quotes)
    }

    fn escape(&mut self) -> Result<(), ProtocolError> {
        let escaped = match self.next().ok_or(ProtocolError::Quotes)? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'a' => 7,
            b'x' => self.hexadecimal().unwrap_or(b'x'),
            other => other,
        };
        self.write(escaped);
        Ok(())
    }

    fn hexadecimal(&mut self) -> Option<u8> {
        let digits = self.bytes.get(self.read..self.read + 2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (high, low) = (digit(digits[0])?, digit(digits[1])?);
        self.read += 2;
        u8::try_from(high * 16 + low).ok()
    }
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0 || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Parser;

    fn words(line: &str) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let mut bytes = [line.as_bytes(), b"\r\n"].concat();
        let mut parser = Parser::new(1_000);
        parser.advance(&mut bytes)?.expect("the line is whole");
        let arguments = parser.arguments(&bytes).from(0);
        Ok(arguments.map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn words_are_divided_by_blanks() {
        assert_eq!(words("PING").unwrap(), [b"PING"]);
        assert_eq!(words(" a \t bc  ").unwrap(), [&b"a"[..], b"bc"]);
    }

    #[test]
    fn quotes_hold_blanks_and_escapes() {
        assert_eq!(
            words(r#"a "b c" 'd "e'"#).unwrap(),
            [&b"a"[..], b"b c", b"d \"e"]
        );
        assert_eq!(words(r#""\x00\xfF\n\"\q""#).unwrap(), [b"\0\xff\n\"q"]);
        assert_eq!(words(r#""\xg1" '\'\n'"#).unwrap(), [&b"xg1"[..], b"'\\n"]);
        assert_eq!(words(r#"pre"fix" """#).unwrap(), [&b"prefix"[..], b""]);
    }

    #[test]
    fn a_quote_that_nothing_closes_is_an_error() {
        for line in [r#""a"#, "'a", r#""a"b"#, r#""a\"#, "'a''b'"] {
            assert_eq!(words(line), Err(ProtocolError::Quotes), "{line}");
        }
    }
}
