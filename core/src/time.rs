//! The project's own time types, so that no test of a decision reads a clock.
//!
//! Microseconds in 64 bits reach 292,000 years to either side of 1970. All
//! arithmetic saturates: a limit must never panic because an instant is odd.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// An instant: microseconds since the Unix epoch (may be negative).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest instant; a fresh state behaves as if it was touched then.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest instant: "never" wherever an instant is reported.
    pub const MAX: Self = Self(i64::MAX);

    /// The instant `micros` microseconds after (or before) the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this instant is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        if self <= earlier {
            return Span::ZERO;
        }
        Span(self.0.wrapping_sub(earlier.0) as u64)
    }

    /// This instant moved by `micros` (saturating), which may exceed 64 bits.
    #[must_use]
    pub fn after_micros(self, micros: u128) -> Self {
        let micros = i128::try_from(micros).unwrap_or(i128::MAX);
        let sum = i128::from(self.0).saturating_add(micros);
        Self(i64::try_from(sum).unwrap_or(i64::MAX))
    }
}

impl Add<Span> for Timestamp {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add_unsigned(span.0))
    }
}

impl Sub<Span> for Timestamp {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub_unsigned(span.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

/// A length of time in microseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// One millisecond: the shortest period of a limit.
    pub const MILLISECOND: Self = Self(1_000);
    /// One second.
    pub const SECOND: Self = Self(1_000_000);
    /// 400 days: the longest period of a limit.
    pub const LONGEST_PERIOD: Self = Self(400 * 24 * 3_600 * 1_000_000);

    /// A span of `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of `millis` milliseconds (saturating).
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A span of `secs` seconds (saturating).
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The same length as a standard duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

/// Rounds down to whole microseconds; longer than 584,000 years saturates.
impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}
