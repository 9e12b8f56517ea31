//! Lengths of time as people write them: `250ms`, `90s`, `1m`, `1h 30m`, `7d`.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, SpanRelativeTo};

/// Why a text is no length of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpanError {
    /// Not a number with a unit.
    Unreadable,
    /// Zero or less.
    NotPositive,
    /// A month or a year, whose length depends on when it is.
    Calendar,
    /// Finer than a microsecond.
    TooFine,
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "write a number with a unit, such as 500ms, 30s, 5m, 1h 30m or 7d",
            Self::NotPositive => "write a length of time above zero, such as 500ms or 30s",
            Self::Calendar => "months and years differ in length: write days, such as 30d",
            Self::TooFine => "time is counted in whole microseconds: write 1us or more",
        })
    }
}

impl std::error::Error for SpanError {}

/// Reads a length of time: a number with a unit, or several (`1h 30m`). A day
/// is 24 hours here.
///
/// # Errors
///
/// [`SpanError`] says what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, SpanError> {
    let span: jiff::Span = text.trim().parse().map_err(|_| SpanError::Unreadable)?;
    if span.get_months() != 0 || span.get_years() != 0 {
        return Err(SpanError::Calendar);
    }
    let length = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| SpanError::Unreadable)?;
    if length <= SignedDuration::ZERO {
        return Err(SpanError::NotPositive);
    }
    if length.subsec_nanos() % 1_000 != 0 {
        return Err(SpanError::TooFine);
    }
    Ok(length.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::{SpanError, parse_duration};
    use std::time::Duration;

    #[test]
    fn lengths_are_read_as_people_write_them() {
        for (text, micros) in [
            ("1us", 1),
            ("250ms", 250_000),
            ("1.5s", 1_500_000),
            ("1m", 60_000_000),
            ("1h 30m", 5_400_000_000),
            ("1h30m", 5_400_000_000),
            ("1d", 86_400_000_000),
            ("2w", 1_209_600_000_000),
            (" 10 seconds ", 10_000_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_micros(micros)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_length_of_time_says_why() {
        for (text, error) in [
            ("", SpanError::Unreadable),
            ("60", SpanError::Unreadable),
            ("soon", SpanError::Unreadable),
            ("0s", SpanError::NotPositive),
            ("-1m", SpanError::NotPositive),
            ("1mo", SpanError::Calendar),
            ("1y", SpanError::Calendar),
            ("10ns", SpanError::TooFine),
        ] {
            assert_eq!(parse_duration(text), Err(error), "{text}");
        }
    }
}
