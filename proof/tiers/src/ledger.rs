//! What was admitted, by the store's clock, and the bound that `docs/reference/tiers.md`
//! states for it. It shares nothing with the code under test: whole numbers, added up.

use std::collections::BTreeMap;

/// A second, in microseconds.
pub const SECOND: u64 = 1_000_000;

/// How a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// In each window of so many microseconds since the epoch.
    Fixed(u64),
    /// In each window of so many microseconds that opens with the first use.
    FirstUse(u64),
    /// In any so many microseconds.
    Rolling(u64),
    /// As much as the capacity at once, and so much more each second.
    Bucket(u64),
}

/// Units that were admitted at an instant of one key.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// By the store's clock.
    pub at: i64,
    /// Which key.
    pub key: usize,
    /// How many.
    pub units: u64,
}

/// By which terms nodes hold units of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// For so many microseconds at most.
    pub hold: u64,
    /// No more than so many are out at any time, of each key.
    pub outstanding: Option<u64>,
    /// What is admitted is within the limit, as without a tier.
    pub is_exact: bool,
}

/// The capacity of a row over time.
#[derive(Clone, Debug)]
pub struct Capacity {
    first: u64,
    /// From when on it is another; when all nodes go by that.
    later: Vec<(i64, i64, u64)>,
}

/// The nearest that a limit came to its bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Nearest {
    /// The most that was admitted.
    pub observed: u64,
    /// Of so many.
    pub bound: u64,
}

/// All that was admitted, in order.
#[derive(Clone, Default, Debug)]
pub struct Ledger(Vec<Entry>);

impl Capacity {
    /// Always this.
    #[must_use]
    pub const fn of(capacity: u64) -> Self {
        Self {
            first: capacity,
            later: Vec::new(),
        }
    }

    /// It is `capacity` from `at` on, and nothing is spent of what was before after `until`.
    pub fn becomes(&mut self, capacity: u64, at: i64, until: i64) {
        self.later.push((at, until, capacity));
    }

    /// The most that it is anywhere between both instants.
    fn most(&self, from: i64, to: i64) -> u64 {
        let mut most = 0;
        let mut now = self.first;
        for &(at, until, capacity) in &self.later {
            if until >= from {
                most = most.max(now);
            }
            if at > to {
                return most;
            }
            now = capacity;
        }
        most.max(now)
    }
}

impl Terms {
    /// Held for so long, and no more is said.
    #[must_use]
    pub const fn held(hold: u64) -> Self {
        Self {
            hold,
            outstanding: None,
            is_exact: false,
        }
    }

    /// What may be admitted beside the limit, of what could be `granted` in the hold before.
    fn beside(&self, granted: u64) -> u64 {
        match self.is_exact {
            true => 0,
            false => self.outstanding.unwrap_or(u64::MAX).min(granted),
        }
    }
}

impl Nearest {
    fn note(&mut self, observed: u64, bound: u64) {
        let is_nearer = u128::from(observed) * u128::from(self.bound.max(1))
            > u128::from(self.observed) * u128::from(bound.max(1));
        if self.bound == 0 || is_nearer {
            *self = Self { observed, bound };
        }
    }

    /// The nearer of both.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        if other.bound > 0 {
            self.note(other.observed, other.bound);
        }
        self
    }

    /// Whether no more was admitted than may be.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.observed <= self.bound
    }
}

impl Ledger {
    /// Units were admitted now.
    pub fn admit(&mut self, at: i64, key: usize, units: u64) {
        match self.0.last_mut() {
            Some(last) if last.at == at && last.key == key => last.units += units,
            _ => self.0.push(Entry { at, key, units }),
        }
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// What was admitted in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|entry| entry.units).sum()
    }

    /// What was admitted from an instant on until before another.
    #[must_use]
    pub fn between(&self, from: i64, to: i64) -> u64 {
        let first = self.0.partition_point(|entry| entry.at < from);
        let inside = self.0[first..].iter().take_while(|entry| entry.at < to);
        inside.map(|entry| entry.units).sum()
    }

    /// How near the keys that are `of` one row came to the bound of a limit of this kind,
    /// where grants are held by these terms.
    pub fn nearest(
        &self,
        of: impl Fn(usize) -> bool,
        kind: Kind,
        capacity: &Capacity,
        terms: Terms,
    ) -> Nearest {
        let row: Vec<Entry> = self.0.iter().copied().filter(|one| of(one.key)).collect();
        match kind {
            Kind::Fixed(length) => fixed(&row, length, capacity),
            Kind::FirstUse(length) => first_use(&row, length, capacity),
            Kind::Rolling(length) => rolling(&row, length, capacity, terms),
            Kind::Bucket(rate) => bucket(&row, rate, capacity, terms),
        }
    }
}

/// The capacity, in each window since the epoch.
fn fixed(row: &[Entry], length: u64, capacity: &Capacity) -> Nearest {
    let mut windows = BTreeMap::<i64, u64>::new();
    for entry in row {
        *windows
            .entry(entry.at.div_euclid(length as i64))
            .or_default() += entry.units;
    }
    let mut nearest = Nearest::default();
    for (window, admitted) in windows {
        let from = window * length as i64;
        nearest.note(admitted, capacity.most(from, from + length as i64 - 1));
    }
    nearest
}

/// When its windows open is not known here, but they never overlap: so long a time meets so
/// many of them, and an instant one.
fn first_use(row: &[Entry], length: u64, capacity: &Capacity) -> Nearest {
    let mut nearest = Nearest::default();
    for (first, from) in row.iter().enumerate() {
        let mut admitted = 0;
        for to in &row[first..] {
            admitted += to.units;
            let lasted = (to.at - from.at) as u64;
            let windows = lasted / length + 1 + u64::from(lasted > 0);
            nearest.note(
                admitted,
                windows * capacity.most(from.at - length as i64, to.at),
            );
        }
    }
    nearest
}

/// In any window: the capacity, and what could be granted in the hold before it, or be out.
fn rolling(row: &[Entry], length: u64, capacity: &Capacity, terms: Terms) -> Nearest {
    let (mut nearest, mut first, mut admitted) = (Nearest::default(), 0, 0);
    for to in row {
        admitted += to.units;
        while to.at - row[first].at >= length as i64 {
            admitted -= row[first].units;
            first += 1;
        }
        let from = row[first].at - (length + terms.hold) as i64;
        let capacity = capacity.most(from, to.at);
        let granted = terms.hold.div_ceil(length) * capacity;
        nearest.note(admitted, capacity + terms.beside(granted));
    }
    nearest
}

/// In any time: the burst, what comes back in that time, and what comes back in a hold, or may
/// be out.
fn bucket(row: &[Entry], rate: u64, capacity: &Capacity, terms: Terms) -> Nearest {
    let mut nearest = Nearest::default();
    let bound = |from: i64, to: i64| {
        let lasted = (to - from) as u64;
        let since = from - terms.hold as i64;
        let granted = ((lasted + terms.hold) * rate).div_ceil(SECOND);
        let back = (lasted * rate).div_ceil(SECOND);
        // Rounded up: what has come back in part at its beginning is whole within it.
        capacity.most(since, to) + back + terms.beside(granted - back) + 1
    };
    if capacity.later.is_empty() {
        // The run that exceeds its refill by most (all others exceed it by less).
        let (mut from, mut admitted) = (0, 0);
        for (at, to) in row.iter().enumerate() {
            let back = |from: &Entry| (to.at - from.at) as u64 * rate;
            if admitted * SECOND <= back(&row[from]) {
                (from, admitted) = (at, 0);
            }
            admitted += to.units;
            nearest.note(admitted, bound(row[from].at, to.at));
        }
        return nearest;
    }
    for (first, from) in row.iter().enumerate() {
        let mut admitted = 0;
        for to in &row[first..] {
            admitted += to.units;
            nearest.note(admitted, bound(from.at, to.at));
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(entries: &[(i64, u64)]) -> Ledger {
        let mut ledger = Ledger::default();
        for &(at, units) in entries {
            ledger.admit(at, 0, units);
        }
        ledger
    }

    fn nearest(entries: &[(i64, u64)], kind: Kind, hold: u64) -> (u64, u64) {
        by(entries, kind, Terms::held(hold))
    }

    fn by(entries: &[(i64, u64)], kind: Kind, terms: Terms) -> (u64, u64) {
        let nearest = ledger(entries).nearest(|_| true, kind, &Capacity::of(10), terms);
        (nearest.observed, nearest.bound)
    }

    #[test]
    fn what_may_be_out_is_in_the_bound_unless_it_is_exact() {
        let terms = |outstanding, is_exact| Terms {
            hold: SECOND,
            outstanding: Some(outstanding),
            is_exact,
        };
        let entries = [(0, 14)];
        for (kind, of_any, of_few, exact) in [
            (Kind::Rolling(1_000_000), 20, 13, 10),
            (Kind::Bucket(5), 16, 14, 11),
            (Kind::Fixed(1_000_000), 10, 10, 10),
        ] {
            for (terms, bound) in [
                (terms(100, false), of_any),
                (terms(3, false), of_few),
                (terms(3, true), exact),
            ] {
                assert_eq!(by(&entries, kind, terms), (14, bound), "{kind:?} {terms:?}");
            }
        }
    }

    #[test]
    fn each_kind_is_counted_as_its_bound_says() {
        let entries = [(0, 4), (900, 6), (1_000, 7), (1_950, 6)];
        assert_eq!(nearest(&entries, Kind::Fixed(1_000), 0), (13, 10));
        assert_eq!(nearest(&entries, Kind::Rolling(1_000), 0), (13, 10));
        assert_eq!(nearest(&entries, Kind::Rolling(1_000), 1), (13, 20));
        // Windows by first use may open at 0 and at 1,000, but not at 900 and at 1,000, too.
        assert_eq!(nearest(&[(0, 20)], Kind::FirstUse(1_000), 0), (20, 10));
        assert_eq!(nearest(&entries, Kind::FirstUse(1_000), 0), (23, 30));
        assert_eq!(
            nearest(&[(0, 9), (1, 13)], Kind::FirstUse(1_000), 0),
            (13, 10)
        );
        // 10 at once, and one each 100 ms: 11 are rounded up to, 13 are too many.
        let kind = Kind::Bucket(10);
        assert_eq!(nearest(&[(0, 10), (1, 3)], kind, 0), (13, 12));
        assert_eq!(nearest(&[(0, 10), (100_000, 1)], kind, 0), (11, 12));
    }

    #[test]
    fn a_capacity_that_changed_counts_until_every_node_knows() {
        let mut capacity = Capacity::of(10);
        capacity.becomes(4, 1_000, 3_000);
        capacity.becomes(6, 5_000, 5_500);
        let most = [
            (0, 500),
            (0, 2_000),
            (2_999, 4_000),
            (3_001, 4_999),
            (3_001, 5_000),
        ];
        let most = most.map(|(from, to)| capacity.most(from, to));
        assert_eq!(most, [10, 10, 10, 4, 6]);
    }
}
