//! What was used, by hours, days or months.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use tidegate::{LONGEST_PAGE, LimitSet, ListedUsage, PageOf, Timestamp};
use tidegate_store::usage::MOST_USED;
use tidegate_store::{Page, StoreError};

/// For one page of sums records are asked for so often at most, and no more once few are found.
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
    let mut sums = Sums::new();
    let mut after = page.after.map(<[u8]>::to_vec);
    // Many records make few sums, mostly.
    let mut many = LONGEST_PAGE;
    for _ in 0..MOST_READ {
        let room = page.most.saturating_sub(sums.len());
        if room == 0 {
            break;
        }
        // As many records as there is room for make no more sums than that.
        let most = many.max(room);
        let wanted = PageOf {
            after: after.as_deref(),
            most,
            ..page
        };
        let mut records = set.list_usage(wanted, since, until).await?;
        for used in &mut records.items {
            used.starts_at = by.beginning(used.starts_at);
        }
        let lie_far_apart = records.items.len() < most;
        let mut more = Sums::new();
        for used in records.items {
            add(&mut more, used);
        }
        let is_new = |place: &&Place| !sums.contains_key(*place);
        if more.keys().filter(is_new).count() > room {
            many = most / 4;
            continue;
        }
        for sum in more.into_values() {
            add(&mut sums, sum);
        }
        after = records.next;
        if after.is_none() || lie_far_apart {
            break;
        }
    }
    Ok(Page {
        items: sums.into_values().collect(),
        next: after,
    })
}

/// Of which key and limit, and from when on.
type Place = (Vec<u8>, String, Timestamp);

type Sums = BTreeMap<Place, ListedUsage>;

fn add(sums: &mut Sums, used: ListedUsage) {
    let more = used.amount;
    sums.entry((used.key.clone(), used.limit.clone(), used.starts_at))
        .and_modify(|sum| sum.amount = sum.amount.saturating_add(more).min(MOST_USED))
        .or_insert(used);
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
