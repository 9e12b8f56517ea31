//! What one limit of one key granted, and whether it might have: an account kept beside
//! the store, by what its callers know.
//!
//! A caller knows when it asked and when it was answered, and not when between the two it
//! was decided. So there are two sums: what was *surely* used at an instant, which must
//! never be more than the limit, and what was *possibly* used, which must be too much for
//! whoever is refused.

use std::collections::{BTreeSet, VecDeque};

/// Microseconds by the clock of the sets.
pub type Micros = i64;

/// Two processors may read the clock so far apart.
const APART: Micros = 1_000;

/// What is still to come.
const NOT_YET: Micros = Micros::MAX;

/// How a limit counts.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// So many units come back in each period, one by one.
    Bucket {
        /// Units.
        rate: u64,
        /// Microseconds.
        per: Micros,
    },
    /// Windows of so many microseconds, from the epoch on.
    Aligned(Micros),
    /// Windows that begin with the first use.
    FirstUse(Micros),
    /// Every rolling window, told apart by so many microseconds.
    Rolling {
        /// Microseconds.
        per: Micros,
        /// Microseconds.
        grain: Micros,
    },
    /// Held at once.
    Slots,
}

/// A limit with what it granted lately: as much as it takes to judge the next answer.
#[derive(Debug)]
pub struct Ledger {
    shape: Shape,
    /// The most at once, or in a window.
    capacity: u64,
    /// Admitted while one unit is left.
    postpaid: bool,
    entries: VecDeque<Entry>,
    /// The number of the first of them.
    first: u64,
    /// Those that are not answered.
    open: BTreeSet<u64>,
    /// Of a bucket, what those that are forgotten come to: surely, and possibly.
    low: Level,
    high: Level,
}

/// How full a bucket was at an instant.
#[derive(Clone, Copy, Default, Debug)]
struct Level {
    at: Micros,
    /// In units, as often as its period has microseconds: so it stays a whole number.
    level: i128,
}

impl Level {
    /// So much was taken at an instant, or before what is known already.
    fn take(self, (at, units): (Micros, u64), (rate, per): (u64, Micros)) -> Self {
        let drained = self.after(at, rate);
        Self {
            at: self.at.max(at),
            level: drained + i128::from(units) * i128::from(per),
        }
    }

    /// What is left of it at an instant.
    fn after(self, at: Micros, rate: u64) -> i128 {
        let drained = i128::from((at - self.at).max(0)) * i128::from(rate);
        (self.level - drained).max(0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    asked: Micros,
    granted: Micros,
    settling: Micros,
    settled: Micros,
    taken: u64,
    used: u64,
    /// It was refused, or failed.
    gone: bool,
}

impl Entry {
    fn is_granted(&self) -> bool {
        !self.gone && self.granted != NOT_YET
    }

    /// Counts at least for this.
    fn surely(&self) -> u64 {
        match self.settling {
            NOT_YET => self.taken,
            _ => self.taken.min(self.used),
        }
    }

    /// Counts at most for this, from an instant on.
    fn possibly(&self, from: Micros) -> u64 {
        match self.settled < from {
            true => self.used,
            false => self.taken.max(self.used),
        }
    }
}

impl Ledger {
    /// Of a limit.
    pub fn new(shape: Shape, capacity: u64, postpaid: bool) -> Self {
        Self {
            shape,
            capacity,
            postpaid,
            entries: VecDeque::new(),
            first: 0,
            open: BTreeSet::new(),
            low: Level::default(),
            high: Level::default(),
        }
    }

    /// So much is asked for, of which so much will be used; a number for it.
    pub fn ask(&mut self, asked: Micros, taken: u64, used: u64) -> u64 {
        self.forget(asked);
        self.entries.push_back(Entry {
            asked,
            granted: NOT_YET,
            settling: NOT_YET,
            settled: NOT_YET,
            taken,
            used,
            gone: false,
        });
        let number = self.first + self.entries.len() as u64 - 1;
        self.open.insert(number);
        number
    }

    /// It was granted.
    ///
    /// # Errors
    /// That is more than the limit has.
    pub fn grant(&mut self, number: u64, now: Micros) -> Result<(), String> {
        let entry = self.answered(number);
        entry.granted = now;
        let (asked, taken) = (entry.asked, entry.taken);
        let most = self.most(taken);
        let sum = self.surely(asked, now);
        match sum <= most {
            true => Ok(()),
            false => Err(format!("{sum} are granted, of {most}: {:?}", self.shape)),
        }
    }

    /// It was refused.
    ///
    /// # Errors
    /// It would have fitted, whatever was decided first.
    pub fn refuse(&mut self, number: u64, now: Micros) -> Result<(), String> {
        let entry = self.answered(number);
        entry.gone = true;
        let (asked, taken) = (entry.asked, entry.taken);
        let needs = if self.postpaid { 1 } else { taken };
        let sum = self.possibly(asked, now);
        match sum + needs > self.capacity {
            true => Ok(()),
            false => Err(format!(
                "{taken} are refused where {sum} of {} are used at most: {:?}",
                self.capacity, self.shape
            )),
        }
    }

    /// It failed: nothing was granted.
    pub fn fail(&mut self, number: u64) {
        self.answered(number).gone = true;
    }

    /// What was used of it is about to be told.
    pub fn settling(&mut self, number: u64, now: Micros) {
        self.entry(number).settling = now;
    }

    /// What was used of it is told.
    pub fn settled(&mut self, number: u64, now: Micros) {
        self.entry(number).settled = now;
    }

    fn entry(&mut self, number: u64) -> &mut Entry {
        let at = (number - self.first) as usize;
        &mut self.entries[at]
    }

    fn answered(&mut self, number: u64) -> &mut Entry {
        self.open.remove(&number);
        self.entry(number)
    }

    /// Drops what no answer depends on any more.
    fn forget(&mut self, now: Micros) {
        let kept = match self.shape {
            Shape::Slots => 0,
            // A bucket that was full has drained after so long.
            Shape::Bucket { rate, per } => self.capacity as i64 * per / rate as i64,
            Shape::Aligned(per) | Shape::FirstUse(per) => 2 * per,
            Shape::Rolling { per, grain } => per + grain,
        };
        let oldest = self
            .open
            .first()
            .map(|number| self.entries[(number - self.first) as usize]);
        let from = oldest.map_or(now, |open| open.asked) - kept;
        let is_past = |entry: &Entry| {
            let ended = entry.gone || entry.settled < from;
            ended && entry.asked < from
        };
        while self.entries.front().is_some_and(is_past) {
            let past = self.entries.pop_front();
            self.first += 1;
            past.iter().for_each(|entry| self.add_up(entry));
        }
    }

    /// What a bucket holds lasts longer than what is kept of its entries.
    fn add_up(&mut self, past: &Entry) {
        if let Shape::Bucket { rate, per } = self.shape
            && past.is_granted()
        {
            self.low = self.low.take((past.asked, past.surely()), (rate, per));
            self.high = self.high.take((past.granted, past.used), (rate, per));
            // It was never fuller than it may be.
            let most = i128::from(self.most(past.taken)) * i128::from(per);
            self.high.level = self.high.level.min(most);
        }
    }

    /// The most there may ever be of it, once so much was taken.
    fn most(&self, taken: u64) -> u64 {
        let over = if self.postpaid { taken - 1 } else { 0 };
        self.capacity + over
    }

    /// What was used at least when one that was asked for at `asked` was granted, by
    /// `now`, itself included.
    fn surely(&self, asked: Micros, now: Micros) -> u64 {
        let granted = || self.entries.iter().rev().filter(|entry| entry.is_granted());
        match self.shape {
            Shape::Slots => {
                let held = granted().filter(|entry| entry.settling == NOT_YET);
                held.map(|entry| entry.taken).sum()
            }
            Shape::Aligned(per) => {
                let window = now.div_euclid(per);
                if asked.div_euclid(per) != window {
                    return 0;
                }
                let within = granted().take_while(|entry| entry.asked.div_euclid(per) == window);
                within.map(Entry::surely).sum()
            }
            Shape::Rolling { per, .. } => {
                let within = granted().take_while(|entry| entry.asked > now - per);
                within.map(Entry::surely).sum()
            }
            // Two windows at most touch one rolling window.
            Shape::FirstUse(per) => {
                let within = granted().take_while(|entry| entry.asked > now - per);
                within.map(Entry::surely).sum::<u64>().div_ceil(2)
            }
            Shape::Bucket { rate, per } => {
                let mut level = self.low;
                for entry in self.entries.iter().filter(|entry| entry.is_granted()) {
                    level = level.take((entry.asked, entry.surely()), (rate, per));
                }
                // What is left of a unit may have drained.
                (level.after(now, rate) / i128::from(per)) as u64
            }
        }
    }

    /// What was used at most when one that was asked for at `asked` was refused, by `now`.
    fn possibly(&self, asked: Micros, now: Micros) -> u64 {
        let others = || self.entries.iter().rev().filter(|entry| !entry.gone);
        // Who asked was granted by then, perhaps, if it was not told before.
        let lately = |from: Micros| {
            let lately = others().filter(move |entry| entry.granted >= from);
            lately.map(|entry| entry.possibly(asked)).sum()
        };
        match self.shape {
            Shape::Slots => {
                let held = others().filter(|entry| entry.settled >= asked);
                held.map(|entry| entry.taken).sum()
            }
            Shape::Aligned(per) => lately(asked.div_euclid(per) * per),
            Shape::FirstUse(per) => lately(asked - per),
            Shape::Rolling { per, grain } => lately(asked - per - grain),
            Shape::Bucket { rate, per } => {
                let latest = others().map(|e| (e.granted.min(now), e.possibly(asked)));
                let mut latest: Vec<_> = latest.collect();
                latest.sort_unstable();
                let take = |level: Level, used| level.take(used, (rate, per));
                let level = latest.into_iter().fold(self.high, take);
                let level = level.after(asked - APART, rate);
                (level as u128).div_ceil(per as u128) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    /// What came of so many that were asked for one after the other, each granted.
    fn granted(ledger: &mut Ledger, many: usize, from: Micros, taken: u64) -> Result<(), String> {
        (0..many as Micros).try_for_each(|nth| {
            let at = from + 10 * nth;
            let number = ledger.ask(at, taken, taken);
            ledger.grant(number, at + 5)
        })
    }

    fn refused(ledger: &mut Ledger, at: Micros, taken: u64) -> Result<(), String> {
        let number = ledger.ask(at, taken, taken);
        ledger.refuse(number, at + 5)
    }

    const SHAPES: [Shape; 4] = [
        Shape::Bucket {
            rate: 10,
            per: SECOND,
        },
        Shape::Aligned(SECOND),
        Shape::Rolling {
            per: SECOND,
            grain: SECOND / 10,
        },
        Shape::Slots,
    ];

    #[test]
    fn what_a_limit_may_grant_is_granted_and_one_more_is_found() {
        for shape in SHAPES {
            let mut ledger = Ledger::new(shape, 10, false);
            assert_eq!(granted(&mut ledger, 10, 0, 1), Ok(()), "{shape:?}");
            // A unit of a bucket may have come back all but for a moment.
            let more = usize::from(matches!(shape, Shape::Bucket { .. }));
            assert_eq!(granted(&mut ledger, more, 200, 1), Ok(()), "{shape:?}");
            assert!(granted(&mut ledger, 1, 300, 1).is_err(), "{shape:?}");
        }
        let mut twice = Ledger::new(Shape::FirstUse(SECOND), 10, false);
        assert_eq!(granted(&mut twice, 20, 0, 1), Ok(()));
        assert!(granted(&mut twice, 1, 300, 1).is_err());
    }

    #[test]
    fn a_refusal_by_a_limit_that_is_used_up_is_explained_and_no_other() {
        for shape in SHAPES {
            let mut ledger = Ledger::new(shape, 10, false);
            assert_eq!(granted(&mut ledger, 8, 0, 1), Ok(()));
            assert!(refused(&mut ledger, 200, 1).is_err(), "{shape:?}");
            assert_eq!(refused(&mut ledger, 300, 3), Ok(()), "{shape:?}");
        }
    }

    #[test]
    fn what_is_asked_for_at_the_same_time_may_have_been_granted_first() {
        for shape in SHAPES {
            let mut ledger = Ledger::new(shape, 10, false);
            let first = ledger.ask(0, 10, 10);
            assert_eq!(refused(&mut ledger, 10, 1), Ok(()), "{shape:?}");
            ledger.fail(first);
            assert!(refused(&mut ledger, 20, 1).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn who_was_held_up_is_refused_by_what_others_were_granted_meanwhile_and_no_more() {
        let shape = Shape::Bucket {
            rate: 10,
            per: SECOND,
        };
        for (others, is_explained) in [(10, true), (9, false)] {
            let mut ledger = Ledger::new(shape, 10, false);
            let held_up = ledger.ask(0, 1, 1);
            assert_eq!(granted(&mut ledger, others, SECOND / 2, 1), Ok(()));
            let refused = ledger.refuse(held_up, SECOND / 2 + 200);
            assert_eq!(refused.is_ok(), is_explained, "{others} others");
        }
    }

    #[test]
    fn what_was_not_used_is_there_again_once_that_is_told() {
        for shape in SHAPES {
            let mut ledger = Ledger::new(shape, 10, false);
            let first = ledger.ask(0, 10, 4);
            assert_eq!(ledger.grant(first, 1), Ok(()));
            ledger.settling(first, 2);
            assert_eq!(refused(&mut ledger, 3, 6), Ok(()), "{shape:?}");
            assert_eq!(granted(&mut ledger, 1, 4, 6), Ok(()), "{shape:?}");
            let mut ledger = Ledger::new(shape, 10, false);
            let first = ledger.ask(0, 10, 4);
            assert_eq!(ledger.grant(first, 1), Ok(()));
            ledger.settled(first, 2);
            assert!(refused(&mut ledger, 3, 5).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn what_is_paid_afterwards_is_granted_while_a_unit_is_left() {
        let mut ledger = Ledger::new(Shape::Aligned(SECOND), 10, true);
        assert_eq!(granted(&mut ledger, 3, 0, 3), Ok(()));
        assert!(refused(&mut ledger, 100, 3).is_err());
        assert_eq!(granted(&mut ledger, 1, 200, 3), Ok(()));
        assert_eq!(refused(&mut ledger, 300, 1), Ok(()));
        assert!(granted(&mut ledger, 1, 400, 3).is_err());
    }

    #[test]
    fn a_window_that_is_over_counts_no_more() {
        for shape in &SHAPES[..3] {
            let mut ledger = Ledger::new(*shape, 10, false);
            assert_eq!(granted(&mut ledger, 10, 0, 1), Ok(()));
            let later = 2 * SECOND;
            assert!(refused(&mut ledger, later, 1).is_err(), "{shape:?}");
            assert_eq!(
                granted(&mut ledger, 10, later + 100, 1),
                Ok(()),
                "{shape:?}"
            );
        }
    }

    #[test]
    fn what_nothing_depends_on_is_not_kept() {
        let mut ledger = Ledger::new(Shape::Aligned(SECOND), 10, false);
        for second in 0..1_000 {
            let number = ledger.ask(second * SECOND, 1, 1);
            assert_eq!(ledger.grant(number, second * SECOND), Ok(()));
            ledger.settled(number, second * SECOND);
        }
        assert!(ledger.entries.len() < 10, "{}", ledger.entries.len());
    }
}
