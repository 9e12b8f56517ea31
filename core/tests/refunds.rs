//! What a bucket gives back late: as much as would not be there had it never
//! been charged, and so never a unit that somebody else may use as well.
//!
//! The whole history is counted again here, from every charge that was made and
//! what came of it. Histories of up to 30 steps merge no marks.

mod common;

use common::{capacities, origins, shift};
use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::*;

/// A charge, what it came to, and whether it was asked for first.
#[derive(Clone, Copy, Debug)]
struct Charge {
    at: Timestamp,
    net: Amount,
    asked: bool,
}

/// A lease not settled yet: the charge it made, and where.
#[derive(Clone, Copy, Debug)]
struct Lease {
    charge: usize,
    reference: ChargeReference,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Take as a lease, if it fits.
    Lease(Amount),
    /// Take as a lease, whether it fits or not.
    Postpaid(Amount),
    /// Take for good, if it fits.
    Take(Amount),
    /// End a lease, having used so many thousandths of it.
    Settle(usize, u64),
}

/// Deeds, each after a wait in thousandths of the refill and microseconds.
type History = Vec<(i64, i64, Operation)>;

/// A bucket and everything that ever happened to it.
struct Past {
    rate: (Amount, Span, Amount),
    bucket: Bucket,
    rule: Rule,
    state: State,
    now: Timestamp,
    charges: Vec<Charge>,
    leases: Vec<Lease>,
}

impl Past {
    fn new(rate: (Amount, Span, Amount), now: Timestamp) -> Self {
        let bucket = Bucket::new(rate.0, rate.1, rate.2).unwrap();
        Self {
            rate,
            bucket,
            rule: Rule::Bucket(bucket),
            state: State::Fresh,
            now,
            charges: Vec::new(),
            leases: Vec::new(),
        }
    }

    fn wait(&mut self, thousandths: i64, micros: i64) {
        let refill = i128::from(self.bucket.refill().as_micros());
        let wait = (refill * i128::from(thousandths) / 1_000) as i64;
        self.now = shift(self.now, wait + micros);
    }

    fn fits(&self, amount: Amount) -> bool {
        let time = DecisionTime::at(self.now);
        self.rule.quote(&self.state, amount, &time).admitted()
    }

    /// Charges; the reference, if it was for a lease.
    fn charge(&mut self, amount: Amount, asked: bool, leased: bool) -> ChargeReference {
        let term = LeaseTerm {
            id: self.charges.len() as u128,
            expires_at: Timestamp::MAX,
        };
        let (term, time) = (leased.then_some(term), DecisionTime::at(self.now));
        let receipt = self.rule.charge(&mut self.state, amount, &time, term);
        let (at, net) = (self.now, amount);
        self.charges.push(Charge { at, net, asked });
        receipt.reference
    }

    fn lease(&mut self, amount: Amount, asked: bool) {
        let reference = self.charge(amount, asked, true);
        let charge = self.charges.len() - 1;
        self.leases.push(Lease { charge, reference });
    }

    fn settle(&mut self, pick: usize, used: impl Fn(Amount) -> Amount) {
        if self.leases.is_empty() {
            return;
        }
        let lease = self.leases.remove(pick % self.leases.len());
        let taken = self.charges[lease.charge].net;
        let used = used(taken);
        let time = DecisionTime::at(self.now);
        if used > taken {
            self.charge(used - taken, false, false);
        } else if used < taken {
            let (state, back) = (&mut self.state, taken - used);
            self.rule.refund(state, back, lease.reference, &time);
            self.charges[lease.charge].net = used;
        }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Lease(amount) if self.fits(amount) => self.lease(amount, true),
            Operation::Postpaid(amount) => self.lease(amount, false),
            Operation::Take(amount) if self.fits(amount) => drop(self.charge(amount, true, false)),
            Operation::Settle(pick, part) => self.settle(pick, |taken| taken * part / 1_000),
            Operation::Lease(_) | Operation::Take(_) => {}
        }
    }

    /// The level at present, from the state's bytes.
    fn level(&self) -> i128 {
        let mut bytes = Vec::new();
        codec::encode(&self.state, &mut bytes);
        let Some(level) = bytes.get(2..18) else {
            return 0;
        };
        let level = i128::from_le_bytes(level.try_into().unwrap());
        let at = i64::from_le_bytes(bytes[18..26].try_into().unwrap());
        let passed = i128::from(self.now.as_micros()) - i128::from(at);
        (level - passed * i128::from(self.bucket.drain())).max(0)
    }

    /// The level had nothing been charged that was given back.
    fn level_without_refunds(&self) -> i128 {
        let drain = i128::from(self.bucket.drain());
        let weight = i128::from(self.bucket.weight());
        let drained = |level: i128, from: Timestamp, to: Timestamp| {
            (level - i128::from(to.since(from).as_micros()) * drain).max(0)
        };
        let (mut level, mut at) = (0, Timestamp::MIN);
        for charge in &self.charges {
            let before = drained(level, at, charge.at);
            (level, at) = (before + i128::from(charge.net) * weight, charge.at);
        }
        drained(level, at, self.now)
    }

    /// What an asker is granted fits beside all that was really used before it,
    /// debts included.
    fn keeps_within_rate(&self) -> Result<(), TestCaseError> {
        let (amount, period, burst) = self.rate;
        let (amount, period) = (u128::from(amount), u128::from(period.as_micros()));
        for (last, end) in self.charges.iter().enumerate().filter(|(_, c)| c.asked) {
            let mut sum = 0;
            for start in self.charges[..=last].iter().rev() {
                sum += u128::from(start.net);
                let window = u128::from(end.at.since(start.at).as_micros());
                prop_assert!(sum * period <= u128::from(burst) * period + window * amount);
            }
        }
        Ok(())
    }

    fn marks(&self) -> usize {
        let mut bytes = Vec::new();
        codec::encode(&self.state, &mut bytes);
        bytes.len().saturating_sub(46) / 24
    }
}

/// Periods short enough that no debt meets its cap.
fn rates() -> impl Strategy<Value = (Amount, Span, Amount)> {
    let period = prop_oneof![1_000_u64..5_000, Just(1_000_000), 1_000..=1_000_000_000_u64];
    (
        capacities(),
        period.prop_map(Span::from_micros),
        capacities(),
    )
}

/// A history in which an amount is at most `share` thousandths of the burst.
fn history(share: u64, gap: i64, steps: usize) -> impl Strategy<Value = History> {
    let gap = prop_oneof![3 => Just(0), 5 => 0..=gap, 1 => 0..=gap * 8];
    let amount = || 0..=share;
    let part =
        prop_oneof![3 => Just(0_u64), 1 => Just(1_000), 3 => 0..1_000_u64, 1 => 0..2_500_u64];
    let operation = prop_oneof![
        5 => amount().prop_map(Operation::Lease),
        1 => amount().prop_map(Operation::Postpaid),
        2 => amount().prop_map(Operation::Take),
        5 => (any::<usize>(), part).prop_map(|(pick, part)| Operation::Settle(pick, part)),
    ];
    vec((gap, 0_i64..4, operation), 0..steps)
}

/// Amounts are drawn in thousandths of the burst: at least one unit of it.
fn scaled(operation: Operation, burst: Amount) -> Operation {
    let amount = |share: u64| (burst * share / 1_000).max(1);
    match operation {
        Operation::Lease(share) => Operation::Lease(amount(share)),
        Operation::Postpaid(share) => Operation::Postpaid(amount(share)),
        Operation::Take(share) => Operation::Take(amount(share)),
        settle @ Operation::Settle(..) => settle,
    }
}

proptest! {
    #[test]
    fn in_any_window_at_most_burst_plus_rate_is_used_whatever_is_given_back(
        rate in rates(), origin in origins(),
        history in prop_oneof![history(1_000, 300, 40), history(40, 10, 200)],
    ) {
        let mut past = Past::new(rate, origin);
        for (thousandths, micros, operation) in history {
            past.wait(thousandths, micros);
            past.apply(scaled(operation, rate.2));
        }
        past.keeps_within_rate()?;
        // And of what is held still, nothing was used after all.
        (0..past.leases.len()).for_each(|_| past.settle(0, |_| 0));
        let left = past.rule.standing(&past.state, &DecisionTime::at(past.now)).remaining;
        past.apply(Operation::Take(left));
        past.keeps_within_rate()?;
    }

    #[test]
    fn after_a_refund_the_level_is_as_if_it_had_never_been_charged(
        rate in rates(), origin in origins(), history in history(1_000, 300, 30),
    ) {
        let mut past = Past::new(rate, origin);
        for (thousandths, micros, operation) in history {
            past.wait(thousandths, micros);
            past.apply(scaled(operation, rate.2));
            prop_assert_eq!(past.level(), past.level_without_refunds());
        }
    }

    /// Rising for long, so that there are more marks than are kept.
    #[test]
    fn after_many_leases_a_refund_gives_back_too_little_and_never_too_much(
        amount in 1_u64..50, period in 1_000_u64..5_000, burst in 100_u64..2_000,
        origin in origins(), history in history(15, 2, 200),
    ) {
        let rate = (amount, Span::from_micros(period), burst);
        let mut past = Past::new(rate, origin);
        for (thousandths, micros, operation) in history {
            past.wait(thousandths, micros);
            past.apply(scaled(operation, burst));
            prop_assert!(past.level() >= past.level_without_refunds());
            prop_assert!(past.marks() <= 32);
        }
        past.keeps_within_rate()?;
    }
}

fn ten_a_second() -> Past {
    Past::new((10, Span::SECOND, 10), Timestamp::from_micros(0))
}

/// A unit that drained while it was held used to come back all the same: two
/// others then used twenty in an instant, of a burst of ten.
#[test]
fn a_lease_that_settles_late_gives_back_nothing_that_has_drained() {
    let mut past = ten_a_second();
    past.apply(Operation::Lease(10));
    past.wait(1_000, 0);
    past.apply(Operation::Lease(10));
    past.settle(0, |_| 0);
    assert!(!past.fits(1));
    past.settle(0, |_| 0);
    assert!(past.fits(10));
}

/// A hundred bursts could be banked, a second each, and spent in an instant.
#[test]
fn a_hundred_unused_leases_bank_no_burst() {
    let mut past = ten_a_second();
    for _ in 0..100 {
        past.apply(Operation::Lease(10));
        past.wait(1_000, 0);
    }
    past.apply(Operation::Take(10));
    (0..100).for_each(|_| past.settle(0, |_| 0));
    assert!(!past.fits(1));
}

/// What one refund took off the level is not there for an earlier lease either:
/// without the later one, the bucket would have been full in between.
#[test]
fn a_refund_is_seen_by_the_leases_before_it() {
    let mut past = ten_a_second();
    past.apply(Operation::Lease(5));
    past.apply(Operation::Lease(5));
    past.wait(700, 0);
    past.apply(Operation::Take(4));
    past.settle(1, |_| 0);
    past.settle(0, |_| 0);
    let time = DecisionTime::at(past.now);
    assert_eq!(past.rule.standing(&past.state, &time).remaining, 6);
}

/// Several leases of one microsecond, all drained within it: the numbers of the
/// next go on where theirs ended.
#[test]
fn a_number_is_never_given_twice_however_fast_a_bucket_drains() {
    let rate = (10_000_000, Span::SECOND, 10);
    let mut past = Past::new(rate, Timestamp::from_micros(0));
    (0..10).for_each(|_| past.apply(Operation::Lease(1)));
    past.wait(0, 1);
    past.apply(Operation::Lease(10));
    (0..10).for_each(|_| past.settle(0, |_| 0));
    assert!(!past.fits(1));
    past.settle(0, |_| 0);
    assert!(past.fits(10));
}

/// Three times as many leases as marks, none of which used anything, while next
/// to nothing drained: a twentieth of the bucket at most is left to drain.
#[test]
fn more_leases_than_marks_lose_little() {
    let mut past = Past::new((1, Span::SECOND, 1_000), Timestamp::from_micros(0));
    for _ in 0..100 {
        past.apply(Operation::Lease(10));
        past.wait(0, 1);
    }
    assert_eq!(past.marks(), 32);
    for left in (0..100).rev() {
        past.settle(left, |_| 0);
        let too_much = past.level() - past.level_without_refunds();
        assert!((0..=50_000_000).contains(&too_much), "{left}: {too_much}");
    }
}
