//! Limits of every kind with small numbers, so that every boundary is met often.

use tidegate_core::{Align, Bounds, Bucket, Log, Ring, Rule, Slots, Span, Timestamp, Window};

use crate::dice::Dice;

/// A calendar whose days begin off the epoch's, so that no epoch window is one.
const DAY: i64 = 7_000;
const SHIFT: i64 = 2_000;

/// A rule, and how long it takes to be full again after its last charge (or after its
/// debt, if that is longer).
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) rule: Rule,
    /// In microseconds.
    pub(super) refill: i64,
}

impl Kind {
    /// One of each; a log with so many entries.
    pub(super) fn all(dice: &mut Dice, entries: u64) -> Vec<Self> {
        let log = Log::new(capacity(dice), period(dice), entries as u32);
        let slots = Slots::new(capacity(dice), period(dice));
        let mut all = vec![
            Self::bucket(dice),
            Self::ring(dice),
            Self::of(Rule::Log(log.expect("a sound log"))),
            Self::of(Rule::Slots(slots.expect("sound slots"))),
        ];
        all.extend(Self::windows(dice));
        all
    }

    pub(super) fn bucket(dice: &mut Dice) -> Self {
        let bucket = Bucket::new(capacity(dice), period(dice), capacity(dice));
        Self::of(Rule::Bucket(bucket.expect("a sound rate")))
    }

    fn ring(dice: &mut Dice) -> Self {
        let ring = Ring::new(capacity(dice), period(dice), dice.between(1, 8) as u32);
        Self::of(Rule::Ring(ring.expect("a sound ring")))
    }

    /// A window of each alignment.
    pub(super) fn windows(dice: &mut Dice) -> [Self; 3] {
        let (epoch, first_use) = (Align::Epoch(period(dice)), Align::FirstUse(period(dice)));
        [epoch, first_use, Align::Calendar].map(|align| {
            let window = Window::new(capacity(dice), align);
            Self::of(Rule::Window(window.expect("a sound window")))
        })
    }

    /// With the time that its rule takes to be full again.
    pub(super) fn of(rule: Rule) -> Self {
        let refill = match &rule {
            Rule::Bucket(bucket) => bucket.refill(),
            Rule::Window(window) => match window.align() {
                Align::Epoch(period) | Align::FirstUse(period) => period,
                Align::Calendar => Span::from_micros(DAY.unsigned_abs()),
            },
            Rule::Ring(ring) => {
                Span::from_micros(ring.step().as_micros() * (u64::from(ring.steps()) + 1))
            }
            Rule::Log(log) => log.window(),
            Rule::Slots(slots) => slots.ttl(),
        };
        let refill = refill.as_micros() as i64;
        Self { rule, refill }
    }

    /// Where its calendar stands, if it follows one.
    pub(super) fn bounds(&self, now: Timestamp) -> Option<Bounds> {
        let follows = matches!(&self.rule, Rule::Window(w) if w.align() == Align::Calendar);
        let start = (now.as_micros() - SHIFT).div_euclid(DAY) * DAY + SHIFT;
        let day = |nth: i64| Timestamp::from_micros(start + nth * DAY);
        follows.then(|| Bounds {
            start: day(0),
            end: day(1),
            next_end: day(2),
        })
    }

    /// When a window that opens at `now` ends.
    pub(super) fn end_of_window(&self, align: Align, now: i64) -> i64 {
        match align {
            Align::Epoch(_) => (now.div_euclid(self.refill) + 1) * self.refill,
            Align::FirstUse(_) => now + self.refill,
            Align::Calendar => ((now - SHIFT).div_euclid(DAY) + 1) * DAY + SHIFT,
        }
    }
}

fn capacity(dice: &mut Dice) -> u64 {
    dice.between(1, 12)
}

fn period(dice: &mut Dice) -> Span {
    Span::from_micros(dice.between(1_000, 5_000))
}
