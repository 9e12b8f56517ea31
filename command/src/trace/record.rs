//! One line of a trace, in any format.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// A line as its format gives it: when, and what fields it has.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// The line in the file, counted from 1.
    pub line: u64,
    /// Microseconds since the Unix epoch.
    pub at: i64,
    /// The fields by name.
    pub fields: Vec<(Cow<'static, str>, String)>,
}

impl Record {
    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All names, for a message about one that is missing.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.fields.iter().map(|(name, _)| name.as_ref()).collect();
        names.join(", ")
    }
}

/// A line that is not as its format demands.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line in the file, counted from 1.
    pub line: u64,
    /// What is wrong, and what to write.
    pub message: String,
}

/// A line or its fault.
pub type Read = Result<Record, Fault>;

/// The lines of a text that are not blank, with their numbers, whatever bytes
/// they hold: a log may quote what a client sent.
pub struct Lines<R> {
    input: R,
    number: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub const fn new(input: R) -> Self {
        Self {
            input,
            number: 0,
            buffer: Vec::new(),
        }
    }

    /// The next line, and its number.
    pub fn next(&mut self) -> io::Result<Option<(u64, Cow<'_, str>)>> {
        loop {
            self.buffer.clear();
            if self.input.read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        let line = self.buffer.trim_ascii();
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        Ok(Some((self.number, String::from_utf8_lossy(line))))
    }

    /// The next line made a record, by a function that knows the format.
    pub fn read(
        &mut self,
        parse: impl FnOnce(u64, &str) -> Result<Record, String>,
    ) -> Option<Read> {
        match self.next() {
            Ok(None) => None,
            Ok(Some((line, text))) => {
                Some(parse(line, &text).map_err(|message| Fault { line, message }))
            }
            Err(error) => {
                let line = self.number + 1;
                Some(Err(Fault {
                    line,
                    message: format!("cannot be read: {error}"),
                }))
            }
        }
    }
}
