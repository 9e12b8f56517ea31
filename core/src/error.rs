//! What can be wrong with a rule, or with bytes said to be a state.

use core::fmt;

use crate::time::Span;

/// A rule that makes no sense; names the parameter and what it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RuleError {
    /// A number outside its range (spans in microseconds).
    OutOfRange {
        /// Which parameter.
        parameter: &'static str,
        /// What was given.
        got: u64,
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
    },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::OutOfRange {
            parameter,
            got,
            least,
            most,
        } = self;
        match *parameter {
            "period" | "window" | "ttl" => {
                let (got, least) = (Span::from_micros(*got), Span::from_micros(*least));
                let days = most / Span::from_secs(86_400).as_micros();
                write!(f, "{parameter} is {got}; it must be {least} to {days} days")
            }
            _ => write!(f, "{parameter} is {got}; it must be {least} to {most}"),
        }
    }
}

impl core::error::Error for RuleError {}

/// Bytes that are no state this version can read; they are never misread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DecodeError {
    /// Written by a newer version of this library.
    Newer {
        /// The version byte found.
        version: u8,
        /// The newest that this build reads.
        reads: u8,
    },
    /// Cut short.
    Truncated,
    /// The named part holds a value that no writer produces.
    Corrupt(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer { version, reads } => write!(
                f,
                "state has format version {version}; this build reads up to {reads}: upgrade it"
            ),
            Self::Truncated => f.write_str("state is cut short"),
            Self::Corrupt(part) => write!(f, "state is corrupt: {part}"),
        }
    }
}

impl core::error::Error for DecodeError {}
