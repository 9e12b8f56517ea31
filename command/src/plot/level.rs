//! How full a limit is over time: what is held, or used in a window.

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::subject::{Calendar, Course};

/// An amount taken at one instant, corrected at another. What was not used
/// comes back to where it was taken; what was used beyond is taken then.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// When it was taken.
    pub from: u64,
    /// When it was corrected or, if it was held, given back.
    pub to: u64,
    /// What was taken.
    pub first: u64,
    /// What it came to.
    pub last: u64,
}

impl Taken {
    fn unused(&self) -> i128 {
        i128::from(self.first.saturating_sub(self.last))
    }

    fn beyond(&self) -> i128 {
        i128::from(self.last.saturating_sub(self.first))
    }
}

/// The changes of a level, in the order of time.
pub type Changes = Vec<(u64, i128)>;

/// The changes of what is held.
pub fn held(taken: &[Taken]) -> Changes {
    let changes = taken
        .iter()
        .flat_map(|t| [(t.from, i128::from(t.first)), (t.to, -i128::from(t.first))]);
    sorted(changes.collect())
}

/// The changes of what was used in the last `window` microseconds.
pub fn rolling(taken: &[Taken], window: u64) -> Changes {
    let changes = taken.iter().flat_map(|t| {
        let (gone, late) = (t.from.saturating_add(window), t.to.saturating_add(window));
        [
            (t.from, i128::from(t.first)),
            (t.to.min(gone), -t.unused()),
            (gone, t.unused() - i128::from(t.first)),
            (t.to, t.beyond()),
            (late, -t.beyond()),
        ]
    });
    sorted(changes.filter(|change| change.1 != 0).collect())
}

/// The changes of what was used in the current window: it falls to zero where
/// the next begins. `start` is the trace's first instant.
pub fn windowed(taken: &[Taken], course: &Course, period: u64, start: i64) -> Changes {
    let mut events: Vec<(u64, u64, i128)> = taken
        .iter()
        .flat_map(|t| {
            [
                (t.from, t.from, i128::from(t.first)),
                (t.to, t.from, -t.unused()),
                (t.to, t.to, t.beyond()),
            ]
        })
        .filter(|event| event.2 != 0)
        .collect();
    events.sort_by_key(|event| event.0);
    let mut windows = Windows {
        course,
        period: period.max(1),
        start,
        end: None,
    };
    let (mut level, mut opened, mut changes) = (0, 0, Changes::new());
    for (at, booked, change) in events {
        if let Some(boundary) = windows.passed(at) {
            changes.push((boundary, -level));
            (level, opened) = (0, boundary);
        }
        // What is corrected after its window is over no longer counts.
        if booked >= opened {
            level += change;
            changes.push((at, change));
        }
    }
    changes.extend(windows.end.map(|end| (end, -level)));
    changes
}

fn sorted(mut changes: Changes) -> Changes {
    changes.sort_by_key(|change| change.0);
    changes
}

/// Where windows end.
struct Windows<'c> {
    course: &'c Course,
    period: u64,
    start: i64,
    /// The end of the current window, from the trace's first request.
    end: Option<u64>,
}

impl Windows<'_> {
    /// The boundary between the last event and this one, if there is one.
    fn passed(&mut self, at: u64) -> Option<u64> {
        let passed = self.end.filter(|end| at >= *end);
        if passed.is_some() || self.end.is_none() {
            self.end = Some(self.end_after(at));
        }
        passed
    }

    fn end_after(&self, at: u64) -> u64 {
        let now = self.start.saturating_add_unsigned(at);
        let end = match self.course {
            Course::Calendar(unit, zone) => calendar_end(*unit, zone, now),
            Course::AfterFirstUse => None,
            _ => {
                let into = now.rem_euclid(self.period.cast_signed());
                Some(now - into + self.period.cast_signed())
            }
        };
        end.map_or(at.saturating_add(self.period), |end| {
            end.saturating_sub(self.start).max(0).cast_unsigned()
        })
    }
}

/// The next midnight that begins a day, a week or a month in a zone.
fn calendar_end(unit: Calendar, zone: &str, now: i64) -> Option<i64> {
    let zone = TimeZone::get(zone).ok()?;
    let today = Timestamp::from_microsecond(now).ok()?.to_zoned(zone);
    let next = match unit {
        Calendar::Day => today.date().tomorrow(),
        Calendar::Week => today.date().nth_weekday(1, Weekday::Monday),
        Calendar::Month => today.date().last_of_month().tomorrow(),
    };
    let midnight: Zoned = next.ok()?.to_zoned(today.time_zone().clone()).ok()?;
    Some(midnight.timestamp().as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::{Course, Taken, calendar_end, held, rolling, windowed};
    use crate::subject::Calendar;

    fn taken(from: u64, to: u64, first: u64, last: u64) -> Taken {
        Taken {
            from,
            to,
            first,
            last,
        }
    }

    #[test]
    fn what_is_held_comes_back_at_its_end() {
        assert_eq!(
            held(&[taken(1, 5, 1, 1), taken(2, 3, 1, 1)]),
            [(1, 1), (2, 1), (3, -1), (5, -1)]
        );
    }

    #[test]
    fn a_rolling_window_forgets_each_amount_by_itself() {
        assert_eq!(
            rolling(&[taken(1, 5, 10, 7)], 60),
            [(1, 10), (5, -3), (61, -7)]
        );
        assert_eq!(
            rolling(&[taken(1, 5, 4, 7)], 60),
            [(1, 4), (5, 3), (61, -4), (65, -3)]
        );
    }

    #[test]
    fn a_window_falls_to_zero_at_its_boundary_and_forgets_late_corrections() {
        let changes = windowed(
            &[taken(5, 15, 10, 7), taken(12, 13, 4, 4)],
            &Course::AtOnce,
            10,
            0,
        );
        assert_eq!(changes, [(5, 10), (10, -10), (12, 4), (20, -4)]);
        // What was used beyond is charged when it is known, in that window.
        let changes = windowed(&[taken(5, 15, 10, 12)], &Course::AtOnce, 10, 0);
        assert_eq!(changes, [(5, 10), (10, -10), (15, 2), (20, -2)]);
        let changes = windowed(
            &[taken(5, 6, 1, 1), taken(14, 14, 1, 1)],
            &Course::AfterFirstUse,
            10,
            0,
        );
        assert_eq!(changes, [(5, 1), (14, 1), (15, -2)]);
    }

    #[test]
    fn a_calendar_day_ends_at_midnight_where_it_is() {
        let (start, half_past_midnight) = (1_700_158_623_000_000, 1_700_159_400_000_000);
        let end = calendar_end(Calendar::Day, "Asia/Kolkata", start);
        assert_eq!(end, Some(half_past_midnight));
        assert_eq!(
            calendar_end(Calendar::Week, "UTC", start),
            Some(1_700_438_400_000_000)
        );
        assert_eq!(
            calendar_end(Calendar::Month, "UTC", start),
            Some(1_701_388_800_000_000)
        );
    }
}
