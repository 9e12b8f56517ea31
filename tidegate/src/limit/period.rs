//! How often a limit starts afresh.

use std::time::Duration;

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};
use tidegate_core::{Bounds, Span, Timestamp};

use super::error::LimitError;

/// A duration, or a calendar's day, week (from Monday) or month in an IANA
/// time zone, daylight saving included: such a day has 23 to 25 hours.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Period {
    /// A length of time: 1 ms to 400 days, in whole microseconds.
    Every(Duration),
    /// From midnight to midnight.
    Day {
        /// An IANA time zone, such as `Europe/Berlin`.
        zone: String,
    },
    /// From Monday's midnight to the next Monday's.
    Week {
        /// An IANA time zone.
        zone: String,
    },
    /// From the first of a month to the first of the next.
    Month {
        /// An IANA time zone.
        zone: String,
    },
}

impl Period {
    /// A calendar's day in `zone`.
    #[must_use]
    pub fn day(zone: impl Into<String>) -> Self {
        Self::Day { zone: zone.into() }
    }

    /// A calendar's week in `zone`, from Monday.
    #[must_use]
    pub fn week(zone: impl Into<String>) -> Self {
        Self::Week { zone: zone.into() }
    }

    /// A calendar's month in `zone`.
    #[must_use]
    pub fn month(zone: impl Into<String>) -> Self {
        Self::Month { zone: zone.into() }
    }

    /// The duration, if it is one.
    pub(crate) fn span(&self) -> Option<Span> {
        match self {
            Self::Every(duration) => Some(Span::from(*duration)),
            _ => None,
        }
    }

    /// The calendar, if it is one; looks the zone up.
    pub(crate) fn calendar(&self) -> Result<Option<Calendar>, LimitError> {
        let (unit, zone) = match self {
            Self::Every(_) => return Ok(None),
            Self::Day { zone } => (CalendarUnit::Day, zone),
            Self::Week { zone } => (CalendarUnit::Week, zone),
            Self::Month { zone } => (CalendarUnit::Month, zone),
        };
        let zone = TimeZone::get(zone).map_err(|_| LimitError::UnknownZone(zone.clone()))?;
        Ok(Some(Calendar { unit, zone }))
    }
}

impl From<Duration> for Period {
    fn from(duration: Duration) -> Self {
        Self::Every(duration)
    }
}

/// What a calendar counts in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CalendarUnit {
    Day,
    Week,
    Month,
}

/// A calendar's unit in a zone: computes where windows begin and end.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    unit: CalendarUnit,
    zone: TimeZone,
}

impl Calendar {
    /// The window that holds `now`, and the end of the one after it. Beyond
    /// the calendar's years (-9999 to 9999) there is none.
    pub(crate) fn bounds(&self, now: Timestamp) -> Option<Bounds> {
        let now = jiff::Timestamp::from_microsecond(now.as_micros()).ok()?;
        let start = self.start(&now.to_zoned(self.zone.clone()))?;
        let end = self.next(&start)?;
        let next_end = self.next(&end)?;
        Some(Bounds {
            start: instant(&start),
            end: instant(&end),
            next_end: instant(&next_end),
        })
    }

    fn start(&self, now: &Zoned) -> Option<Zoned> {
        let date = now.date();
        let first = match self.unit {
            CalendarUnit::Day => date,
            CalendarUnit::Week => {
                let since = date.weekday().since(Weekday::Monday);
                date.checked_sub(i32::from(since).days()).ok()?
            }
            CalendarUnit::Month => date.first_of_month(),
        };
        first.to_zoned(self.zone.clone()).ok()
    }

    fn next(&self, start: &Zoned) -> Option<Zoned> {
        let step = match self.unit {
            CalendarUnit::Day => 1.day(),
            CalendarUnit::Week => 1.week(),
            CalendarUnit::Month => 1.month(),
        };
        // By date, not by adding to the instant: a zone may skip its midnight.
        let date = start.date().checked_add(step).ok()?;
        date.to_zoned(self.zone.clone()).ok()
    }
}

fn instant(zoned: &Zoned) -> Timestamp {
    Timestamp::from_micros(zoned.timestamp().as_microsecond())
}
