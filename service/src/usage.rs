//! What was used, by hours, days or months.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use tidegate::{LimitSet, ListedUsage, PageOf, Timestamp};
use tidegate_store::{Page, StoreError};

/// For one page of sums so many pages of records are read at most.
const MOST_READ: usize = 16;

/// By which time usage is added up, in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UsageBy {
    /// Each hour by itself.
    #[default]
    Hour,
    /// By the day.
    Day,
    /// By the month.
    Month,
}

impl UsageBy {
    /// What is called so: `hour`, `day` or `month`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "hour" => Some(Self::Hour),
            "day" => Some(Self::Day),
            "month" => Some(Self::Month),
            _ => None,
        }
    }

    /// When the time begins that an hour belongs to.
    fn beginning(self, hour: Timestamp) -> Timestamp {
        let first = |date: fn(Date) -> Date| {
            let hour = jiff::Timestamp::from_microsecond(hour.as_micros()).ok()?;
            let date = date(hour.to_zoned(TimeZone::UTC).date());
            let begins = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
            Some(Timestamp::from_micros(begins.as_microsecond()))
        };
        let begins = match self {
            Self::Hour => None,
            Self::Day => first(|date| date),
            Self::Month => first(Date::first_of_month),
        };
        begins.unwrap_or(hour)
    }
}

/// A page of what was used from one instant to another: records, or sums of them.
pub(crate) async fn list(
    set: &LimitSet,
    page: PageOf<'_>,
    (since, until): (Timestamp, Timestamp),
    by: UsageBy,
) -> Result<Page<ListedUsage>, StoreError> {
    if by == UsageBy::Hour {
        return set.list_usage(page, since, until).await;
    }
    let mut sums = BTreeMap::<_, ListedUsage>::new();
    let mut after = page.after.map(<[u8]>::to_vec);
    for _ in 0..MOST_READ {
        let room = page.most.saturating_sub(sums.len());
        // However many records there are, no page has more sums than it may have.
        let next = PageOf {
            after: after.as_deref(),
            most: room,
            ..page
        };
        let records = set.list_usage(next, since, until).await?;
        for mut used in records.items {
            used.starts_at = by.beginning(used.starts_at);
            let place = (used.key.clone(), used.limit.clone(), used.starts_at);
            let more = used.amount;
            sums.entry(place)
                .and_modify(|sum| sum.amount = sum.amount.saturating_add(more))
                .or_insert(used);
        }
        after = records.next;
        if after.is_none() || sums.len() * 2 > page.most {
            break;
        }
    }
    Ok(Page {
        items: sums.into_values().collect(),
        next: after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_and_a_month_begin_at_midnight_of_utc() {
        let at = |text: &str| {
            let at: jiff::Timestamp = text.parse().expect("an instant");
            Timestamp::from_micros(at.as_microsecond())
        };
        for (by, hour, begins) in [
            (
                UsageBy::Hour,
                "2026-11-29T13:00:00Z",
                "2026-11-29T13:00:00Z",
            ),
            (UsageBy::Day, "2026-11-29T13:00:00Z", "2026-11-29T00:00:00Z"),
            (UsageBy::Day, "2026-11-29T00:00:00Z", "2026-11-29T00:00:00Z"),
            (
                UsageBy::Month,
                "2026-11-29T23:00:00Z",
                "2026-11-01T00:00:00Z",
            ),
            (
                UsageBy::Month,
                "2028-02-29T00:00:00Z",
                "2028-02-01T00:00:00Z",
            ),
        ] {
            assert_eq!(by.beginning(at(hour)), at(begins), "{by:?} {hour}");
        }
        // What no calendar has stays as it is.
        assert_eq!(UsageBy::Month.beginning(Timestamp::MAX), Timestamp::MAX);
    }
}
