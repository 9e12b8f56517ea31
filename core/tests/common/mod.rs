//! Random rules of all five kernels, and keys with a random past.
//!
//! Every span is drawn relative to the rule's own refill, so that a history
//! crosses the rule's boundaries whatever its period.
#![allow(dead_code, reason = "every test file uses its own part")]

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::*;

/// A calendar whose days begin at 22:00 UTC, so that no epoch window is one.
pub const DAY: i64 = 86_400_000_000;
pub const SHIFT: i64 = -7_200_000_000;

/// A rule, and how long it takes to be full again after its last charge.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    pub rule: Rule,
    pub refill: Span,
}

/// What one step of a history does.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Charge if it fits.
    Take,
    /// Charge whatever the quote says.
    Force,
    /// Give back one earlier charge.
    Refund,
}

/// One step: let time pass, then act.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// In 1/1000 of the refill.
    pub gap: i64,
    /// And this many microseconds.
    pub jitter: i64,
    /// In 1/1000 of the capacity.
    pub share: u64,
    pub action: Action,
}

impl Step {
    /// At least one unit; up to a little more than the capacity.
    pub fn amount(&self, rule: &Rule) -> Amount {
        (rule.capacity() * self.share / 1_000).max(1)
    }

    pub fn span(&self, refill: Span) -> i64 {
        (i128::from(self.gap) * i128::from(refill.as_micros()) / 1_000) as i64 + self.jitter
    }
}

/// What was charged, and all it takes to give it back.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    pub at: Timestamp,
    pub amount: Amount,
    pub receipt: Receipt,
    pub term: LeaseTerm,
}

/// One key under one rule.
#[derive(Clone, Debug)]
pub struct Key {
    pub rule: Rule,
    pub refill: Span,
    pub state: State,
    pub now: Timestamp,
    pub charges: Vec<Charge>,
    ids: u128,
}

impl Key {
    pub fn new(law: Law, now: Timestamp) -> Self {
        Self {
            rule: law.rule,
            refill: law.refill,
            state: State::Fresh,
            now,
            charges: Vec::new(),
            ids: 0,
        }
    }

    /// A key that has lived through `steps`.
    pub fn after(law: Law, origin: Timestamp, steps: &[Step]) -> Self {
        let mut key = Self::new(law, origin);
        for step in steps {
            key.step(step);
        }
        key
    }

    /// Lives through one step; the amount that was charged, if one was.
    pub fn step(&mut self, step: &Step) -> Option<Amount> {
        self.now = shift(self.now, step.span(self.refill));
        let time = self.decision_time();
        self.rule.observe(&mut self.state, &time);
        let amount = step.amount(&self.rule);
        match step.action {
            Action::Refund => {
                self.give_back(step.share as usize);
                None
            }
            Action::Take if !self.quote(amount).admitted() => None,
            Action::Take | Action::Force => {
                self.charge(amount);
                Some(amount)
            }
        }
    }

    pub fn charge(&mut self, amount: Amount) -> Charge {
        self.ids += 1;
        let term = LeaseTerm {
            id: self.ids,
            expires_at: self.now + self.refill,
        };
        let time = self.decision_time();
        let receipt = self.rule.charge(&mut self.state, amount, &time, Some(term));
        let charge = Charge {
            at: self.now,
            amount,
            receipt,
            term,
        };
        self.charges.push(charge);
        charge
    }

    fn give_back(&mut self, pick: usize) {
        if !self.charges.is_empty() {
            let charge = self.charges.remove(pick % self.charges.len());
            self.refund(&charge);
        }
    }

    pub fn refund(&mut self, charge: &Charge) {
        let time = self.decision_time();
        self.rule.refund(
            &mut self.state,
            charge.amount,
            charge.receipt.reference,
            &time,
        );
        self.rule.release(&mut self.state, charge.term, self.now);
    }

    pub fn decision_time(&self) -> DecisionTime {
        decision_time(&self.rule, self.now)
    }

    pub fn quote(&self, amount: Amount) -> Verdict {
        self.rule.quote(&self.state, amount, &self.decision_time())
    }

    pub fn standing(&self) -> Standing {
        self.rule.standing(&self.state, &self.decision_time())
    }

    /// The same key at another instant, as every verb finds it.
    pub fn at(&self, now: Timestamp) -> Self {
        let mut key = self.clone();
        key.now = now;
        key.rule
            .observe(&mut key.state, &decision_time(&self.rule, now));
        key
    }

    /// Every verdict worth asking for, and the standing: all that can be told
    /// from the outside.
    pub fn face(&self) -> (Vec<Verdict>, Standing) {
        let capacity = self.rule.capacity();
        let amounts = [0, 1, 2, capacity / 2, capacity, capacity + 1];
        let verdicts = amounts.iter().map(|&amount| self.quote(amount));
        (verdicts.collect(), self.standing())
    }
}

/// The moment `now`, with a calendar if the rule follows one.
pub fn decision_time(rule: &Rule, now: Timestamp) -> DecisionTime {
    let mut time = DecisionTime::at(now);
    if matches!(rule, Rule::Window(window) if window.align() == Align::Calendar) {
        let into = (i128::from(now.as_micros()) - i128::from(SHIFT)).rem_euclid(i128::from(DAY));
        let start = shift(now, -(into as i64));
        time.calendar = Some(Bounds {
            start,
            end: shift(start, DAY),
            next_end: shift(start, 2 * DAY),
        });
    }
    time
}

pub fn shift(at: Timestamp, by: i64) -> Timestamp {
    Timestamp::from_micros(at.as_micros().saturating_add(by))
}

pub fn periods() -> impl Strategy<Value = Span> {
    let micros = prop_oneof![
        1_000_u64..5_000,
        Just(1_000_000),
        1_000_u64..=10_000_000_000,
        Just(400 * 86_400_000_000),
    ];
    micros.prop_map(Span::from_micros)
}

pub fn capacities() -> impl Strategy<Value = Amount> {
    prop_oneof![8 => 1_u64..=12, 2 => 13_u64..=5_000]
}

pub fn buckets() -> impl Strategy<Value = Law> {
    (capacities(), periods(), capacities()).prop_map(|(amount, period, burst)| {
        let bucket = Bucket::new(amount, period, burst).unwrap();
        law(Rule::Bucket(bucket), bucket.refill())
    })
}

fn windows() -> impl Strategy<Value = Law> {
    (capacities(), periods(), 0..3).prop_map(|(capacity, period, align)| {
        let (align, refill) = match align {
            0 => (Align::Epoch(period), period),
            1 => (Align::FirstUse(period), period),
            _ => (Align::Calendar, Span::from_micros(DAY as u64)),
        };
        law(Rule::Window(Window::new(capacity, align).unwrap()), refill)
    })
}

pub fn rings() -> impl Strategy<Value = Law> {
    (capacities(), periods(), 1_u32..=12).prop_map(|(capacity, period, sub_windows)| {
        let ring = Ring::new(capacity, period, sub_windows).unwrap();
        let refill = ring.step().as_micros() * (u64::from(sub_windows) + 1);
        law(Rule::Ring(ring), Span::from_micros(refill))
    })
}

pub fn logs(entries: impl Strategy<Value = u32>) -> impl Strategy<Value = Law> {
    (capacities(), periods(), entries).prop_map(|(capacity, period, entries)| {
        let log = Log::new(capacity, period, entries).unwrap();
        law(Rule::Log(log), period)
    })
}

pub fn slots() -> impl Strategy<Value = Law> {
    (capacities(), periods()).prop_map(|(capacity, ttl)| {
        let slots = Slots::new(capacity, ttl).unwrap();
        law(Rule::Slots(slots), ttl)
    })
}

fn law(rule: Rule, refill: Span) -> Law {
    Law { rule, refill }
}

/// A rule of any kind; a log with as few as `entries`.
pub fn laws_with_log(entries: impl Strategy<Value = u32>) -> impl Strategy<Value = Law> {
    prop_oneof![buckets(), windows(), rings(), logs(entries), slots()]
}

pub fn laws() -> impl Strategy<Value = Law> {
    laws_with_log(2_u32..=20)
}

/// Long before, at, and long after 1970; on and off the boundaries.
pub fn origins() -> impl Strategy<Value = Timestamp> {
    let micros = prop_oneof![
        Just(0_i64),
        Just(1_700_000_000_000_000),
        -2_000_000_000_000_000_i64..2_000_000_000_000_000,
    ];
    micros.prop_map(Timestamp::from_micros)
}

fn gaps() -> impl Strategy<Value = i64> {
    prop_oneof![3 => Just(0_i64), 5 => 0_i64..300, 2 => 0_i64..2_500]
}

fn takes() -> impl Strategy<Value = Action> {
    Just(Action::Take)
}

fn actions() -> impl Strategy<Value = Action> {
    prop_oneof![5 => takes(), 2 => Just(Action::Force), 2 => Just(Action::Refund)]
}

fn history(
    gaps: impl Strategy<Value = i64>,
    actions: impl Strategy<Value = Action>,
) -> impl Strategy<Value = Vec<Step>> {
    let step = (gaps, 0_i64..4, 0_u64..1_100, actions);
    let step = step.prop_map(|(gap, jitter, share, action)| Step {
        gap,
        jitter,
        share,
        action,
    });
    vec(step, 0..30)
}

/// Charges, debts and refunds on a clock that never steps back.
pub fn pasts() -> impl Strategy<Value = Vec<Step>> {
    history(gaps(), actions())
}

/// Only what was admitted, on a clock that never steps back.
pub fn takings() -> impl Strategy<Value = Vec<Step>> {
    history(gaps(), takes())
}

/// A clock that steps back a little or a lot.
fn wandering() -> impl Strategy<Value = i64> {
    prop_oneof![4 => gaps(), 1 => -900_i64..0, 1 => -4_000_i64..0]
}

/// Only what was admitted, on a clock that steps back a little or a lot.
pub fn wandering_takings() -> impl Strategy<Value = Vec<Step>> {
    history(wandering(), takes())
}

fn takes_and_releases() -> impl Strategy<Value = Action> {
    prop_oneof![4 => takes(), 1 => Just(Action::Refund)]
}

/// What was admitted and given back, on a clock that never steps back.
pub fn steady_holdings() -> impl Strategy<Value = Vec<Step>> {
    history(gaps(), takes_and_releases())
}

/// What was admitted and given back, on a clock that steps back.
pub fn wandering_holdings() -> impl Strategy<Value = Vec<Step>> {
    history(wandering(), takes_and_releases())
}
