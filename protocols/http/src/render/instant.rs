//! Instants as JSON and headers have them.

use std::fmt;
use std::time::Duration;

use jiff::fmt::temporal::DateTimePrinter;
use serde::{Serialize, Serializer};
use tidegate::Timestamp;

use crate::openapi::schema::schema;

/// How long an instant is when it is written, with a sign and a microsecond.
const LENGTH: usize = 32;

/// A length of time in whole milliseconds, rounded down.
pub(crate) fn millis_down(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// An instant that is written as RFC 3339, in UTC.
#[derive(Clone, Copy)]
pub(crate) struct Instant(pub(crate) Timestamp);

impl Instant {
    /// Whatever lies beyond the year 9999 is written as the end of it.
    fn text(self) -> String {
        let (first, last) = (jiff::Timestamp::MIN, jiff::Timestamp::MAX);
        let range = first.as_microsecond()..=last.as_microsecond();
        let micros = self.0.as_micros().clamp(*range.start(), *range.end());
        let instant = jiff::Timestamp::from_microsecond(micros).unwrap_or(last);
        let mut text = String::with_capacity(LENGTH);
        // Writing to a string does not fail.
        _ = DateTimePrinter::new().print_timestamp(&instant, &mut text);
        text
    }
}

schema!(Instant = {"type": "string", "format": "date-time"});

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instant_can_be_written() {
        let written = |micros| Instant(Timestamp::from_micros(micros)).to_string();
        assert_eq!(written(0), "1970-01-01T00:00:00Z");
        assert_eq!(
            written(1_767_268_800_000_001),
            "2026-01-01T12:00:00.000001Z"
        );
        assert!(written(i64::MAX).starts_with("9999-12-"));
        assert!(written(i64::MIN).starts_with("-009999-"));
    }
}
