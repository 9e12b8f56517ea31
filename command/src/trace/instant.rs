//! Instants as traces write them.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The field that holds the instant, and its unit if it is a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeField {
    /// The field's name.
    pub name: String,
    /// What a number counts; told by its size if not said.
    pub unit: Option<TimeUnit>,
}

/// What a number of an epoch counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds, perhaps with a fraction.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

const UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Seconds),
    ("ms", TimeUnit::Millis),
    ("us", TimeUnit::Micros),
    ("ns", TimeUnit::Nanos),
];

impl FromStr for TimeField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, unit)) = text.rsplit_once(':') else {
            return Ok(Self {
                name: text.to_owned(),
                unit: None,
            });
        };
        let known = UNITS.iter().find(|(word, _)| *word == unit);
        let known =
            known.ok_or_else(|| format!("`{unit}` is no unit; write NAME:s, :ms, :us or :ns"))?;
        Ok(Self {
            name: name.to_owned(),
            unit: Some(known.1),
        })
    }
}

impl TimeUnit {
    /// By its size: 10^11 seconds are the year 5138, and 10^11 milliseconds
    /// are 1973.
    fn of(number: i128) -> Self {
        match number.unsigned_abs() {
            0..100_000_000_000 => Self::Seconds,
            100_000_000_000..100_000_000_000_000 => Self::Millis,
            100_000_000_000_000..100_000_000_000_000_000 => Self::Micros,
            _ => Self::Nanos,
        }
    }

    const fn nanos(self) -> i128 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Millis => 1_000_000,
            Self::Micros => 1_000,
            Self::Nanos => 1,
        }
    }
}

/// Reads a date and time; one without an offset is taken as UTC. Digits beyond
/// the microsecond are cut off.
pub fn written(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant.as_microsecond());
    }
    let civil: DateTime = text.parse().ok()?;
    Some(
        civil
            .to_zoned(TimeZone::UTC)
            .ok()?
            .timestamp()
            .as_microsecond(),
    )
}

/// Reads an epoch number; exact, because it is read as decimal digits.
pub fn counted(text: &str, unit: Option<TimeUnit>) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let number: i128 = whole.parse().ok()?;
    let unit = unit.unwrap_or_else(|| TimeUnit::of(number)).nanos();
    let part = fraction_of(fraction, unit)?;
    let nanos = number.checked_mul(unit)?;
    let nanos = if whole.starts_with('-') {
        nanos - part
    } else {
        nanos + part
    };
    i64::try_from(nanos.div_euclid(1_000)).ok()
}

/// The digits after the point, as nanoseconds of `unit`, cut off.
fn fraction_of(digits: &str, unit: i128) -> Option<i128> {
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = &digits[..digits.len().min(9)];
    if digits.is_empty() {
        return Some(0);
    }
    let number: i128 = digits.parse::<u64>().ok()?.into();
    Some(number * unit / 10_i128.pow(u32::try_from(digits.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::{TimeField, TimeUnit, counted, written};

    const AT: i64 = 1_700_158_623_979_960;

    #[test]
    fn written_instants_are_cut_to_the_microsecond() {
        for text in [
            "2023-11-16 18:17:03.9799600",
            "2023-11-16T18:17:03.9799609Z",
            "2023-11-16 19:17:03.979960+01:00",
            "2023-11-16 18:17:03.979960+00:00",
        ] {
            assert_eq!(written(text), Some(AT), "{text}");
        }
        assert_eq!(written("yesterday"), None);
        assert_eq!(written("2023-02-30 00:00:00"), None);
    }

    #[test]
    fn counted_instants_tell_their_unit_by_their_size() {
        for text in [
            "1700158623.97996",
            "1700158623979.96",
            "1700158623979960",
            "1700158623979960999",
        ] {
            assert_eq!(counted(text, None), Some(AT), "{text}");
        }
        assert_eq!(counted("1500", Some(TimeUnit::Millis)), Some(1_500_000));
        assert_eq!(counted("-1.5", None), Some(-1_500_000));
        assert_eq!(counted("1e9", None), None);
        assert_eq!(counted("1.+5", None), None);
    }

    #[test]
    fn a_time_field_may_name_its_unit() {
        let field: TimeField = "start:ms".parse().unwrap();
        assert_eq!(
            (field.name.as_str(), field.unit),
            ("start", Some(TimeUnit::Millis))
        );
        assert!("start:min".parse::<TimeField>().is_err());
    }
}
