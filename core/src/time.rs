//! The project's own time types, so that no test of a decision reads a clock.
//!
//! Microseconds in 64 bits reach 292,000 years to either side of 1970. All
//! arithmetic saturates: a limit must never panic because an instant is odd.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// An instant: microseconds since the Unix epoch (may be negative).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
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

/// As `Display`: what a person reads.
impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As RFC 3339 has it, in UTC, with microseconds if there are any; [`MAX`](Self::MAX)
/// is `never`. Years of more than four digits have their sign (ISO 8601).
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAX {
            return f.write_str("never");
        }
        let (seconds, micros) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        match year {
            0..=9_999 => write!(f, "{year:04}")?,
            _ => write!(f, "{year:+07}")?,
        }
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if micros != 0 {
            write!(f, ".{micros:06}")?;
        }
        f.write_str("Z")
    }
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
/// (Formula: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `civil_from_days`: years of 400 begin in March, so that a leap day comes last.)
const fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leap = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + 400 * era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Rounds down to whole microseconds; beyond 292,000 years saturates.
#[cfg(feature = "std")]
impl From<std::time::SystemTime> for Timestamp {
    fn from(time: std::time::SystemTime) -> Self {
        match time.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => Self::default() + Span::from(after),
            Err(before) => {
                let before = before.duration();
                let down = Span::from_micros(u64::from(before.subsec_nanos() % 1_000 != 0));
                Self::default() - Span::from(before) - down
            }
        }
    }
}

/// Where the system's time does not reach so far, the epoch.
#[cfg(feature = "std")]
impl From<Timestamp> for std::time::SystemTime {
    fn from(at: Timestamp) -> Self {
        let epoch = std::time::UNIX_EPOCH;
        let distance = Duration::from_micros(at.0.unsigned_abs());
        let time = match at.0 {
            0.. => epoch.checked_add(distance),
            _ => epoch.checked_sub(distance),
        };
        time.unwrap_or(epoch)
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

    /// Whole milliseconds, rounded up: whoever comes back then is not too early.
    #[must_use]
    pub const fn millis_up(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Whole seconds, rounded up.
    #[must_use]
    pub const fn secs_up(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// The same length as a standard duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

/// As policies say it, in the largest unit that it is a whole number of: `12h`, `1500ms`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "m"),
            (1_000_000, "s"),
            (1_000, "ms"),
        ];
        let mut units = UNITS.iter();
        match units.find(|(unit, _)| self.0 != 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}us", self.0),
        }
    }
}

/// Rounds down to whole microseconds; longer than 584,000 years saturates.
impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_span_is_said_in_its_largest_whole_unit() {
        for (micros, words) in [
            (0, "0us"),
            (1_500, "1500us"),
            (1_500_000, "1500ms"),
            (90_000_000, "90s"),
            (43_200_000_000_000, "500d"),
            (129_600_000_000, "36h"),
        ] {
            assert_eq!(Span::from_micros(micros).to_string(), words);
        }
    }

    #[test]
    fn a_wait_is_rounded_up_and_never_nothing() {
        use crate::verdict::Verdict;
        let at = Timestamp::from_micros;
        let wait = |now, until| Verdict::NotUntil(at(until)).retry_after(at(now)).unwrap();
        assert_eq!(wait(0, 1).secs_up(), 1);
        assert_eq!(wait(0, 1_000_000).secs_up(), 1);
        assert_eq!(wait(0, 1_000_001).secs_up(), 2);
        assert_eq!(wait(0, 1_001).millis_up(), 2);
        assert_eq!((wait(5, 0).secs_up(), wait(5, 5).millis_up()), (1, 1));
        assert_eq!(at(0).since(at(5)).secs_up(), 0);
        assert_eq!(Verdict::Never.retry_after(at(0)), None);
    }

    #[test]
    fn an_instant_is_shown_as_people_write_it() {
        let shown = [
            (0, "1970-01-01T00:00:00Z"),
            (1_767_268_800_000_000, "2026-01-01T12:00:00Z"),
            (1_709_208_000_000_001, "2024-02-29T12:00:00.000001Z"),
            (951_782_399_000_000, "2000-02-28T23:59:59Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (253_402_300_800_000_000, "+010000-01-01T00:00:00Z"),
            (i64::MIN, "-290308-12-21T19:59:05.224192Z"),
            (i64::MAX, "never"),
        ];
        for (micros, text) in shown {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn the_systems_time_and_back_is_the_same_instant() {
        use std::time::{SystemTime, UNIX_EPOCH};
        for micros in [0, 1, -1, 1_767_268_800_000_000, -62_135_596_800_000_000] {
            let at = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::from(SystemTime::from(at)), at);
        }
        let just_before = UNIX_EPOCH - Duration::from_nanos(1);
        assert_eq!(Timestamp::from(just_before).as_micros(), -1);
    }
}
