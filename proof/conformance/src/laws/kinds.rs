//! Limits of every kind with small numbers, so that every boundary is met often.

use tidegate_core::{Align, Bounds, Bucket, Log, Ring, Rule, Slots, Span, Timestamp, Window};

use crate::rng::Rng;

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
    pub(super) fn all(rng: &mut Rng, entries: u64) -> Vec<Self> {
        let log = Log::new(capacity(rng), period(rng), entries as u32);
        let slots = Slots::new(capacity(rng), period(rng));
        let mut all = vec![
            Self::bucket(rng),
            Self::ring(rng),
            Self::of(Rule::Log(log.expect("a sound log"))),
            Self::of(Rule::Slots(slots.expect("sound slots"))),
        ];
        all.extend(Self::windows(rng));
        all
    }

    pub(super) fn bucket(rng: &mut Rng) -> Self {
        let bucket = Bucket::new(capacity(rng), period(rng), capacity(rng));
        Self::of(Rule::Bucket(bucket.expect("a sound rate")))
    }

    fn ring(rng: &mut Rng) -> Self {
        let ring = Ring::new(capacity(rng), period(rng), rng.between(1, 8) as u32);
        Self::of(Rule::Ring(ring.expect("a sound ring")))
    }

    /// A window of each alignment.
    pub(super) fn windows(rng: &mut Rng) -> [Self; 3] {
        let (epoch, first_use) = (Align::Epoch(period(rng)), Align::FirstUse(period(rng)));
        [epoch, first_use, Align::Calendar].map(|align| {
            let window = Window::new(capacity(rng), align);
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

fn capacity(rng: &mut Rng) -> u64 {
    rng.between(1, 12)
}

fn period(rng: &mut Rng) -> Span {
    Span::from_micros(rng.between(1_000, 5_000))
}
