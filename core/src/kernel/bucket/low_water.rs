//! How low a bucket has stood since each lease that may still give back.
//!
//! What a lease took and did not use drains like everything else. Once it has
//! drained, its room is everybody's, and to give it back as well would mint it.
//!
//! **What comes back.** Let `L` be the level, and `L'` the level had `w` of a
//! charge never been made. Both drain alike and are charged alike; right after
//! the charge `L - L'` is `w`, and it only shrinks while `L'` rests at 0, where
//! it is all of `L`. So ever after `L - L' = min(w, lowest L since the charge)`
//! (the reflection map: Harrison, "Brownian Motion and Stochastic Flow
//! Systems", 1985, chapter 2). That much a refund takes off the level.
//!
//! **What is kept.** Leases are numbered as they charge. A *mark* `(n, m)` says
//! that leases numbered up to `n` have seen the level as low as `m`. A level
//! only falls between charges, so it is looked at right before each, and a low
//! hides every earlier one that was no lower: both parts of the marks ascend.
//!
//! **After a refund** the past is `L'`: the marks since that lease go down by as
//! much as the level. For the first of them stands at the lowest `L` since the
//! charge, unless the present does. If all of `w` came back, `L - L'` was `w` all
//! along. If less did, `L'` is 0 where `L` was lowest, which hides what was before
//! it, and `L - L'` is the same since.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::time::Timestamp;

/// How many marks are kept. Beyond, two become one that promises less than
/// either: a lease in between gives back too little, never too much. (Of a
/// thousand leases at once, each a step up, none of which used anything, all
/// but a twentieth comes back at once; the rest drains.)
pub(crate) const MOST_MARKS: usize = 32;

/// So many marks keep their place once they are of the past.
const FEW_MARKS: usize = 4;

/// The low-water marks of one key, if there are any. Once made, their memory is kept: a key
/// whose leases come and go allocates none for each.
#[derive(Default)]
pub(crate) struct LowWaterMarks(Option<Box<Marks>>);

impl LowWaterMarks {
    pub(crate) const NONE: Self = Self(None);

    pub(crate) fn of(low_water: Marks) -> Self {
        Self(Some(Box::new(low_water)))
    }

    #[inline]
    pub(crate) const fn get(&self) -> Option<&Marks> {
        match &self.0 {
            Some(low_water) if !low_water.is_over() => Some(low_water),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self) -> Option<&mut Marks> {
        self.0
            .as_deref_mut()
            .filter(|low_water| !low_water.is_over())
    }

    /// Notes the level: before each charge, and wherever it is 0. At 0 there is nothing
    /// more to give back, so nothing to remember, unless the clock alone would repeat a
    /// number.
    #[inline]
    pub(super) fn note(&mut self, level: u128, now: Timestamp) {
        let Some(kept) = self.get_mut() else { return };
        if level == 0 && now.as_micros() > kept.last {
            kept.end();
        } else {
            kept.note(level);
        }
    }

    /// [Notes](Self::note) the level; answers the number of a lease that charges now: from
    /// the clock, so that numbers go on growing after all was forgotten.
    #[inline]
    pub(super) fn number(&mut self, level: u128, now: Timestamp) -> i64 {
        self.note(level, now);
        let now = now.as_micros();
        match &mut self.0 {
            Some(kept) if kept.is_over() => (kept.since, kept.last) = (now, now),
            Some(kept) => {
                kept.last = kept.last.saturating_add(1).max(now);
                return kept.last;
            }
            None => *self = Self::first(now),
        }
        now
    }

    /// Those of a key's first lease.
    #[cold]
    fn first(now: i64) -> Self {
        let marks = Vec::new();
        let (since, last) = (now, now);
        Self::of(Marks { since, last, marks })
    }
}

impl Clone for LowWaterMarks {
    fn clone(&self) -> Self {
        self.get()
            .map_or(Self::NONE, |low_water| Self::of(low_water.clone()))
    }
}

impl PartialEq for LowWaterMarks {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for LowWaterMarks {}

impl fmt::Debug for LowWaterMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Marks {
    /// The first lease known; those before have seen level 0.
    pub(crate) since: i64,
    /// The last number given.
    pub(crate) last: i64,
    pub(crate) marks: Vec<Mark>,
}

/// Leases numbered up to `number` have seen the level as low as `level`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) number: i64,
    pub(crate) level: u128,
}

impl Marks {
    /// Whether they are of the past: no lease is known.
    const fn is_over(&self) -> bool {
        self.since > self.last
    }

    #[inline]
    fn end(&mut self) {
        (self.since, self.last) = (i64::MAX, i64::MIN);
        self.marks.clear();
        if self.marks.capacity() > FEW_MARKS {
            self.give_memory_back();
        }
    }

    #[cold]
    fn give_memory_back(&mut self) {
        self.marks = Vec::new();
    }

    fn note(&mut self, level: u128) {
        while self.marks.last().is_some_and(|mark| mark.level >= level) {
            self.marks.pop();
        }
        let number = self.last;
        if self.marks.last().is_none_or(|mark| mark.number < number) {
            self.marks.push(Mark { number, level });
        }
        if self.marks.len() > MOST_MARKS {
            self.merge();
        }
    }

    /// What comes back of a `weight` that lease `number` did not use, now that
    /// the level is `level`.
    #[inline]
    pub(super) fn give_back(&mut self, number: i64, weight: u128, level: u128) -> u128 {
        if !(self.since..=self.last).contains(&number) {
            return 0;
        }
        let first = self.marks.partition_point(|mark| mark.number < number);
        let (before, since) = self.marks.split_at_mut(first);
        let lowest = since.first().map_or(level, |mark| mark.level.min(level));
        let back = weight.min(lowest);
        since.iter_mut().for_each(|mark| mark.level -= back);
        if let Some(low) = since.first().map(|mark| mark.level) {
            let lower = before.partition_point(|mark| mark.level < low);
            self.marks.drain(lower..first);
        }
        back
    }

    /// From when the clock alone yields a larger number than any given.
    pub(super) const fn forget_at(&self) -> Timestamp {
        Timestamp::from_micros(self.last.saturating_add(1))
    }

    /// Carries the levels over to other weights. What rounding makes equal, the
    /// later mark says for both.
    pub(super) fn convert(&mut self, level: impl Fn(u128) -> u128) {
        let marks = self.marks.iter_mut();
        marks.for_each(|mark| mark.level = level(mark.level));
        self.marks.dedup_by(|later, kept| {
            let same = later.level == kept.level;
            if same {
                kept.number = later.number;
            }
            same
        });
    }

    /// Makes one mark of the two whose levels are nearest: leases up to the
    /// larger number are said to have seen the smaller level.
    fn merge(&mut self) {
        let gaps = self.marks.windows(2).map(|two| two[1].level - two[0].level);
        let nearest = gaps.enumerate().min_by_key(|&(_, gap)| gap);
        if let Some((at, _)) = nearest {
            self.marks[at + 1].level = self.marks[at].level;
            self.marks.remove(at);
        }
    }
}
