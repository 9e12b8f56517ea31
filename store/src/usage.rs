//! How much was used, hour by hour: a side effect of commands, and no limit.
//!
//! A plan that [counts usage](crate::Plan::usage) has every command note what it charges and
//! gives back of each row and limit, in the step of the command. What is held (slots) is
//! not consumed, and not counted.
//!
//! **The hour** is one of the epoch (UTC), by the clock that decided: for a take or debit
//! that of the command. What a lease uses belongs to the hour in which it was granted,
//! however late it is adjusted, settled or cancelled: so a late settlement corrects what was
//! counted when it was charged, and counts nothing in the hour in which it comes. A lease
//! that was granted when its plan did not count usage is not counted later either.
//!
//! **A record** is of a row, a limit's name (a number would not outlive the limit) and an
//! hour. It is kept for as long as the plan says from the end of its hour on. Days and months
//! are sums of hours, made by who reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_core::{Span, Timestamp};

use crate::key::root_of;
use crate::listing::Page;
use crate::owned::OwnedKey;

/// An hour of the epoch: 0 is the first of 1970, in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Hour(u32);

/// How long an hour lasts.
const HOUR: Span = Span::from_secs(3_600);

impl Hour {
    /// The last that there is.
    pub const MAX: Self = Self(u32::MAX);

    /// The hour of this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The hour that an instant is in: the first for any before 1970.
    #[must_use]
    pub fn of(at: Timestamp) -> Self {
        let hours = at.as_micros().div_euclid(HOUR.as_micros() as i64);
        Self(u32::try_from(hours.max(0)).unwrap_or(u32::MAX))
    }

    /// When it begins.
    #[must_use]
    pub const fn starts_at(self) -> Timestamp {
        Timestamp::from_micros(self.0 as i64 * HOUR.as_micros() as i64)
    }

    /// From when on its records are over, if they are kept for `keep`.
    #[must_use]
    pub fn over_at(self, keep: Span) -> Timestamp {
        self.starts_at() + HOUR + keep
    }

    /// The first hour whose records are not over at `now`, if they are kept for `keep`.
    #[must_use]
    pub fn oldest(now: Timestamp, keep: Span) -> Self {
        let keep = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        Self::of(Timestamp::from_micros(now.as_micros().saturating_sub(keep)))
    }
}

/// Which hours: from the one to before the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hours {
    /// The first.
    pub from: Hour,
    /// The first that is none of them.
    pub to: Hour,
}

impl Hours {
    /// All that there are.
    pub const ALL: Self = Self {
        from: Hour(0),
        to: Hour::MAX,
    };

    /// Whether this is one of them.
    #[must_use]
    pub fn has(self, hour: Hour) -> bool {
        self.from <= hour && hour < self.to
    }
}

/// What a row used of a limit in an hour.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Usage {
    /// The name of the row: a key, or an ancestor of some.
    pub key: OwnedKey,
    /// The limit's name.
    pub limit: Arc<str>,
    /// The hour.
    pub hour: Hour,
    /// How much: at most 2^63 - 1, which more stays.
    pub amount: u64,
}

/// The roots on a page of usage, while it is made: under each, what has expired gives back what it
/// does before its records are told, and the page is read again. The page may come to have others
/// then.
#[derive(Debug, Default)]
pub struct RootsOnPage(BTreeSet<OwnedKey>);

impl RootsOnPage {
    /// Those that were not on the page when it was read before, in order. Its set has so many
    /// levels.
    pub fn new_on(&mut self, page: &Page<Usage>, levels: usize) -> Vec<OwnedKey> {
        let roots = page
            .items
            .iter()
            .map(|used| root_of(used.key.bytes(), levels));
        let roots: BTreeSet<OwnedKey> = roots.map(OwnedKey::new).collect();
        let new: Vec<OwnedKey> = roots.difference(&self.0).cloned().collect();
        self.0.extend(new.iter().cloned());
        new
    }
}

/// What a command changes of a record, in the step of the command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageChange {
    /// Which row of the key's path, the outermost first.
    pub level: usize,
    /// The limit's name.
    pub limit: Arc<str>,
    /// The hour.
    pub hour: Hour,
    /// How much more, or, below 0, less was used in it.
    pub amount: i64,
}

/// The most that is ever noted.
pub const MOST_USED: u64 = i64::MAX as u64;

/// What a record of so much has after a change of it: never less than nothing.
#[must_use]
pub fn changed(used: u64, by: i64) -> u64 {
    used.saturating_add_signed(by).min(MOST_USED)
}

/// What several changes of one record come to, whatever it has: first so much less, at most all of it, then
/// so much more. What an expired lease gives back is not taken from what is used after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsageSum {
    /// How much less.
    pub less: u64,
    /// How much more after that.
    pub more: u64,
}

impl UsageSum {
    /// With so much more after it, or, below 0, less.
    pub const fn add(&mut self, amount: i64) {
        let by = amount.unsigned_abs();
        if amount >= 0 {
            self.more = self.more.saturating_add(by);
        } else {
            self.less = self.less.saturating_add(by.saturating_sub(self.more));
            self.more = self.more.saturating_sub(by);
        }
    }

    /// With all of another after it.
    pub const fn add_all(&mut self, other: Self) {
        self.less = self
            .less
            .saturating_add(other.less.saturating_sub(self.more));
        self.more = self
            .more
            .saturating_sub(other.less)
            .saturating_add(other.more);
    }

    /// What a record of so much has after it.
    #[must_use]
    pub fn applied_to(self, used: u64) -> u64 {
        used.saturating_sub(self.less)
            .saturating_add(self.more)
            .min(MOST_USED)
    }

    /// Whether it changes no record.
    #[must_use]
    pub const fn is_nothing(self) -> bool {
        self.less == 0 && self.more == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn an_hour_is_one_of_the_epoch_in_utc() {
        let hour = |seconds: i64| Hour::of(Timestamp::from_micros(seconds * SECOND)).number();
        assert_eq!([hour(-1), hour(0), hour(3_599), hour(3_600)], [0, 0, 0, 1]);
        assert_eq!(Hour::of(Hour::new(490_000).starts_at()), Hour::new(490_000));
    }

    /// Both say the same of every instant, on either side of the edge.
    #[test]
    fn the_oldest_hour_is_the_first_that_is_not_over() {
        for keep in [0, 1, 3_600, 5_000, 86_400] {
            let keep = Span::from_secs(keep);
            for second in (3_590_000..3_610_000).step_by(7) {
                for micros in [-1, 0, 1] {
                    let now = Timestamp::from_micros(second * SECOND + micros);
                    let oldest = Hour::oldest(now, keep);
                    let before = Hour::new(oldest.number() - 1);
                    assert!(oldest.over_at(keep) > now, "{now:?} {keep:?}");
                    assert!(before.over_at(keep) <= now, "{now:?} {keep:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_sum_changes_a_record_as_its_changes_do_one_after_the_other(
            used in 0..20_u64,
            first in proptest::collection::vec(-9..9_i64, 0..6),
            then in proptest::collection::vec(-9..9_i64, 0..6),
        ) {
            let sum = |changes: &[i64]| {
                let mut sum = UsageSum::default();
                changes.iter().for_each(|&change| sum.add(change));
                sum
            };
            let all = first.iter().chain(&then);
            let expected = all.fold(used, |used, &change| changed(used, change));
            prop_assert_eq!(sum(&[&first[..], &then].concat()).applied_to(used), expected);
            let mut both = sum(&first);
            both.add_all(sum(&then));
            prop_assert_eq!(both.applied_to(used), expected);
        }
    }

    #[test]
    fn a_record_has_never_less_than_nothing_nor_more_than_it_can() {
        assert_eq!(changed(5, -3), 2);
        assert_eq!(changed(5, -6), 0);
        assert_eq!(changed(MOST_USED - 1, 5), MOST_USED);
    }
}
