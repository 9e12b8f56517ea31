//! The promises of DESIGN.md section 7 that the core alone can keep, each as a
//! test of its name, over random rules of every kind with random pasts.
//!
//! What a promise counts is counted again here by hand, from the list of what
//! was granted: never by asking the code under test to judge itself.
//! `PROPTEST_CASES=100000 cargo test -p tidegate-core` looks harder.

mod common;

use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::*;

/// What was granted, and when by a clock that only ever counts forward.
type Grants = Vec<(u64, Amount)>;

/// Runs `steps`, and lists what was granted by elapsed time: the sum of all
/// steps forward, which is the real time where the clock never steps back.
fn grants(law: Law, origin: Timestamp, steps: &[Step]) -> Grants {
    let (mut key, mut elapsed, mut grants) = (Key::new(law, origin), 0, Vec::new());
    for step in steps {
        elapsed += u64::try_from(step.span(law.refill)).unwrap_or(0);
        grants.extend(key.step(step).map(|amount| (elapsed, amount)));
    }
    grants
}

/// Every run of neighbours: how long it took, and what it was granted.
fn runs(grants: &Grants) -> impl Iterator<Item = (u128, u128)> {
    let all = 0..grants.len();
    all.flat_map(move |first| {
        let mut sum = 0;
        grants[first..].iter().map(move |&(at, amount)| {
            sum += u128::from(amount);
            (u128::from(at - grants[first].0), sum)
        })
    })
}

/// Amount, period and burst of a bucket, as an operator writes them.
fn rates() -> impl Strategy<Value = (Amount, Span, Amount)> {
    (capacities(), periods(), capacities())
}

fn bucket_law((amount, period, burst): (Amount, Span, Amount)) -> Law {
    let bucket = Bucket::new(amount, period, burst).unwrap();
    Law {
        rule: Rule::Bucket(bucket),
        refill: bucket.refill(),
    }
}

fn within_rate(
    grants: &Grants,
    (amount, period, burst): (Amount, Span, Amount),
) -> Result<(), TestCaseError> {
    let (amount, period) = (u128::from(amount), u128::from(period.as_micros()));
    for (elapsed, granted) in runs(grants) {
        prop_assert!(granted * period <= u128::from(burst) * period + elapsed * amount);
    }
    Ok(())
}

fn within_capacity(grants: &Grants, capacity: Amount, window: Span) -> Result<(), TestCaseError> {
    let window = u128::from(window.as_micros());
    for (_, granted) in runs(grants).filter(|&(elapsed, _)| elapsed < window) {
        prop_assert!(granted <= u128::from(capacity));
    }
    Ok(())
}

fn ring_law((capacity, window, steps): (Amount, Span, u32)) -> Law {
    let ring = Ring::new(capacity, window, steps).unwrap();
    Law {
        rule: Rule::Ring(ring),
        refill: Span::from_micros(ring.step().as_micros() * (u64::from(steps) + 1)),
    }
}

fn log_law((capacity, window, entries): (Amount, Span, u32)) -> Law {
    Law {
        rule: Rule::Log(Log::new(capacity, window, entries).unwrap()),
        refill: window,
    }
}

fn aligns() -> impl Strategy<Value = Align> {
    let period = periods();
    (period, 0..3).prop_map(|(period, align)| match align {
        0 => Align::Epoch(period),
        1 => Align::FirstUse(period),
        _ => Align::Calendar,
    })
}

fn window_law(capacity: Amount, align: Align) -> Law {
    let refill = match align {
        Align::Epoch(period) | Align::FirstUse(period) => period,
        Align::Calendar => Span::from_micros(DAY as u64),
    };
    let rule = Rule::Window(Window::new(capacity, align).unwrap());
    Law { rule, refill }
}

/// When a window that opens at `now` ends.
fn end_of_window(align: Align, now: Timestamp) -> Timestamp {
    let (now, next) = (now.as_micros(), |at: i64, length: i64| {
        (at.div_euclid(length) + 1) * length
    });
    Timestamp::from_micros(match align {
        Align::Epoch(period) => next(now, period.as_micros() as i64),
        Align::FirstUse(period) => now + period.as_micros() as i64,
        Align::Calendar => next(now - SHIFT, DAY) + SHIFT,
    })
}

proptest! {
    #[test]
    fn stale_state_and_absent_state_decide_alike(
        law in laws(), origin in origins(), past in pasts(), later in 0_i64..5_000, future in pasts(),
    ) {
        let mut stale = Key::after(law, origin, &past);
        let fences = stale.charges.iter().map(|charge| charge.receipt.fence).max();
        stale.now = shift(stale.now.max(law.rule.forget_at(&stale.state)), later);
        stale.charges.clear();
        let mut absent = stale.clone();
        absent.state = State::Fresh;
        prop_assert_eq!(stale.face(), absent.face());
        for step in &future {
            prop_assert_eq!(stale.step(step), absent.step(step));
            prop_assert_eq!(stale.face(), absent.face());
            let last = absent.charges.last().map(|charge| charge.receipt);
            prop_assert_eq!(stale.charges.last().map(|charge| charge.receipt), last);
            let fence = last.map(|receipt| receipt.fence).filter(|&fence| fence > 0);
            prop_assert!(fence.is_none_or(|fence| Some(fence) > fences));
        }
    }

    #[test]
    fn the_reported_instant_is_exact(law in laws(), origin in origins(), past in pasts(), amount in 1_u64..20) {
        let key = Key::after(law, origin, &past);
        for amount in [1, amount.min(law.rule.capacity()), law.rule.capacity()] {
            match key.quote(amount) {
                Verdict::Admit => prop_assert!(amount <= key.standing().remaining),
                Verdict::NotUntil(at) => {
                    prop_assert!(at > key.now && amount > key.standing().remaining);
                    prop_assert!(key.at(at).quote(amount).admitted());
                    prop_assert_eq!(key.at(shift(at, -1)).quote(amount), Verdict::NotUntil(at));
                }
                Verdict::Never => prop_assert!(false, "it fits a full limit"),
            }
        }
        prop_assert_eq!(key.quote(law.rule.capacity() + 1), Verdict::Never);
    }

    #[test]
    fn the_reported_instant_is_exact_in_a_standing(law in laws(), origin in origins(), past in pasts()) {
        let key = Key::after(law, origin, &past);
        let now = key.standing();
        let seen = |at| key.at(at).standing();
        let full = Standing::full(law.rule.capacity());
        let (Some(more), Some(all)) = (now.replenish_at, now.full_at) else {
            prop_assert_eq!(now, full);
            return Ok(());
        };
        prop_assert!(key.now < more && more <= all);
        prop_assert_eq!(seen(all), full);
        prop_assert!(seen(shift(all, -1)) != full);
        prop_assert_eq!(seen(shift(more, -1)).remaining, now.remaining);
        prop_assert!(seen(more).remaining > now.remaining);
    }

    #[test]
    fn in_any_window_at_most_burst_plus_rate_is_admitted(rate in rates(), origin in origins(), past in takings()) {
        within_rate(&grants(bucket_law(rate), origin, &past), rate)?;
    }

    #[test]
    fn in_any_rolling_window_at_most_the_capacity_is_admitted(
        capacity in capacities(), window in periods(), n in 2_u32..12, origin in origins(), past in takings(),
    ) {
        for law in [ring_law((capacity, window, n)), log_law((capacity, window, n))] {
            within_capacity(&grants(law, origin, &past), capacity, window)?;
        }
    }

    /// The other half of an exact window: whatever may be admitted is.
    #[test]
    fn a_log_that_was_never_full_refuses_no_one_else(
        capacity in capacities(), window in periods(), origin in origins(), past in takings(),
    ) {
        let mut key = Key::new(log_law((capacity, window, 64)), origin);
        for step in &past {
            let now = shift(key.now, step.span(window));
            let live = |charge: &&Charge| now.since(charge.at) < window;
            let used: u64 = key.charges.iter().filter(live).map(|charge| charge.amount).sum();
            let fits = used + step.amount(&key.rule) <= capacity;
            prop_assert_eq!(key.step(step).is_some(), fits);
        }
    }

    /// In each window, by windows computed here, whatever they are aligned to.
    #[test]
    fn in_each_window_exactly_the_capacity_is_admitted(
        capacity in capacities(), align in aligns(), origin in origins(), past in takings(),
    ) {
        let law = window_law(capacity, align);
        let (mut key, mut open) = (Key::new(law, origin), None::<(Timestamp, Amount)>);
        for step in &past {
            let now = shift(key.now, step.span(law.refill));
            open = open.filter(|&(end, _)| now < end);
            let (end, used) = open.unwrap_or_else(|| (end_of_window(align, now), 0));
            let sum = used + step.amount(&law.rule);
            prop_assert_eq!(key.step(step).is_some(), sum <= capacity);
            if sum <= capacity {
                open = Some((end, sum));
            }
        }
    }

    /// Right after the step nothing more fits than right before it, and all is
    /// back within a refill of the clock's coming back; after a step too far
    /// for that, within a refill.
    #[test]
    fn a_clock_that_steps_back_admits_nothing_more_and_never_locks_up_for_longer_than_its_refill(
        law in laws(), origin in origins(), past in takings(), idle in 0_i64..2_500, back in 0_i64..6_000,
    ) {
        let mut key = Key::after(law, origin, &past);
        let refill = law.refill.as_micros() as i64;
        let last = key.charges.last().map_or(key.now, |charge| charge.at);
        let part = |n: i64| (i128::from(n) * i128::from(refill) / 1_000) as i64;
        key.now = key.now.max(shift(last, part(idle)));
        let back_by = part(back);
        let before = key.face();
        let after = key.at(shift(last, -back_by));
        prop_assert!(after.standing().remaining <= before.1.remaining);
        for (new, old) in after.face().0.iter().zip(&before.0) {
            prop_assert!(old.admitted() || !new.admitted());
        }
        let allowed = refill + if back_by > 2 * refill { 0 } else { back_by.min(refill) };
        prop_assert!(after.standing().full_at.is_none_or(|at| at <= shift(after.now, allowed)));
        prop_assert!(after.at(shift(after.now, allowed)).quote(law.rule.capacity()).admitted());
    }

    /// Over a whole wandering history: no more than the time that passed yields.
    #[test]
    fn a_clock_that_steps_back_admits_nothing_more_over_a_history(
        rate in rates(), n in 2_u32..12, origin in origins(), past in wandering_takings(),
    ) {
        within_rate(&grants(bucket_law(rate), origin, &past), rate)?;
        let (capacity, window, _) = rate;
        for law in [ring_law((capacity, window, n)), log_law((capacity, window, n))] {
            within_capacity(&grants(law, origin, &past), capacity, window)?;
        }
    }

    /// Twice the capacity may pass around the end of any window. One that is
    /// aligned may end out of its turn after a step back by more than its
    /// length, and the next soon after it: then it is three times, not more.
    #[test]
    fn a_clock_that_steps_back_opens_no_more_windows_over_a_history(
        capacity in capacities(), align in aligns(), origin in origins(), past in wandering_takings(),
    ) {
        let law = window_law(capacity, align);
        let windows = if matches!(align, Align::FirstUse(_)) { 2 } else { 3 };
        within_capacity(&grants(law, origin, &past), windows * capacity, law.refill)?;
    }

    /// Every lease is counted here for as long as it was granted, by the time
    /// that passed, unless it was released.
    #[test]
    fn at_any_instant_at_most_the_capacity_is_held_and_fences_grow(
        law in slots(), origin in origins(),
        past in prop_oneof![wandering_holdings(), steady_holdings()],
    ) {
        let (mut key, mut elapsed, mut fence) = (Key::new(law, origin), 0, 0);
        let mut until = std::collections::HashMap::new();
        for step in &past {
            elapsed += u64::try_from(step.span(law.refill)).unwrap_or(0);
            if key.step(step).is_some() {
                let charge = key.charges.last().unwrap();
                until.insert(charge.term.id, elapsed + law.refill.as_micros());
                prop_assert!(charge.receipt.fence > fence);
                fence = charge.receipt.fence;
            }
            let live = |charge: &&Charge| until[&charge.term.id] > elapsed;
            let held: u64 = key.charges.iter().filter(live).map(|charge| charge.amount).sum();
            prop_assert!(held <= law.rule.capacity());
        }
    }

    #[test]
    fn raising_a_limit_delays_no_one(
        law in laws(), origin in origins(), past in pasts(), more in prop_oneof![Just(0_u64), 0_u64..50], faster in prop_oneof![Just(1_u64), 1_u64..50], wait in 0_i64..1_500,
    ) {
        let old = Key::after(law, origin, &past);
        let mut raised = old.clone();
        raised.rule = raise(&law, more, faster);
        raised.rule.adopt(&mut raised.state, &law.rule, &old.decision_time());
        let later = shift(old.now, law.refill.as_micros() as i64 / 1_000 * wait);
        for now in [old.now, shift(old.now, 1), later] {
            let (old, raised) = (old.at(now), raised.at(now));
            for amount in [1, law.rule.capacity() / 2, law.rule.capacity()] {
                prop_assert!(!raised.quote(amount).outlasts(old.quote(amount)));
            }
            prop_assert!(raised.standing().remaining >= old.standing().remaining);
        }
    }

    /// Within one limit, what was admitted and given back might never have been.
    #[test]
    fn refunds_are_exact(
        law in laws_with_log(Just(1_000_u32)), origin in origins(), past in pasts(),
        share in 0_u64..1_000, hold in 0_i64..1_500, wait in 0_i64..1_500,
    ) {
        let mut never = Key::after(law, origin, &past);
        let mut refunded = never.clone();
        let amount = (law.rule.capacity() * share / 1_000).min(never.standing().remaining);
        if amount == 0 {
            return Ok(());
        }
        let charge = refunded.charge(amount);
        prop_assert!(refunded.standing().remaining == never.standing().remaining - amount);
        let part = |n: i64| (i128::from(n) * i128::from(law.refill.as_micros()) / 1_000) as i64;
        refunded.now = shift(refunded.now, part(hold));
        refunded.refund(&charge);
        for later in [0, 1, part(wait)] {
            refunded.now = shift(refunded.now, later);
            never.now = refunded.now;
            prop_assert_eq!(refunded.face(), never.face());
        }
    }

    /// What has left a window, or has drained, is nobody's to give back: the
    /// next use is another's.
    #[test]
    fn refunds_are_exact_when_they_come_too_late(
        law in laws(), origin in origins(), past in pasts(), wait in 0_i64..1_500,
    ) {
        let mut key = Key::after(law, origin, &past);
        let late = key.charge(1);
        key.now = shift(key.now.max(law.rule.forget_at(&key.state)), wait);
        key.charge(law.rule.capacity());
        let before = key.face();
        key.refund(&late);
        prop_assert_eq!(key.face(), before);
    }
}

/// The same kind of rule with more capacity and, for a bucket, a faster rate.
fn raise(law: &Law, more: Amount, faster: u64) -> Rule {
    let capacity = law.rule.capacity() + more;
    match law.rule {
        Rule::Bucket(old) => Rule::Bucket(raise_bucket(old, capacity, faster)),
        Rule::Window(old) => Rule::Window(Window::new(capacity, old.align()).unwrap()),
        Rule::Slots(old) => Rule::Slots(old.with_capacity(capacity).unwrap()),
        Rule::Log(_) => log_law((capacity, law.refill, 20)).rule,
        Rule::Ring(old) => {
            let (step, all) = (old.step().as_micros(), law.refill.as_micros());
            let window = Span::from_micros(all - step).min(Span::LONGEST_PERIOD);
            ring_law((capacity, window, (all / step - 1) as u32)).rule
        }
    }
}

/// Weight and drain are the period and the amount over their divisor.
fn raise_bucket(old: Bucket, burst: Amount, faster: u64) -> Bucket {
    let times = 1_000_u64.div_ceil(old.weight());
    let period = Span::from_micros(old.weight() * times);
    Bucket::new(old.drain() * times + faster - 1, period, burst).unwrap()
}

/// One part of a step over several limits.
#[derive(Clone, Debug)]
struct Request {
    key: Key,
    amount: Amount,
    payment: Payment,
    shadow: bool,
}

impl Request {
    /// What must fit, told from the standing instead of the quote.
    fn fits(&self) -> bool {
        let postpaid = self.payment == Payment::Postpaid;
        let must_fit = if postpaid {
            self.amount.min(1)
        } else {
            self.amount
        };
        self.amount == 0 || must_fit <= self.key.standing().remaining
    }

    fn part(&mut self) -> Part<'_> {
        let time = self.key.decision_time();
        Part {
            payment: self.payment,
            shadow: self.shadow,
            ..Part::new(&self.key.rule, &mut self.key.state, self.amount, time)
        }
    }
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let payment = prop_oneof![Just(Payment::Prepaid), Just(Payment::Postpaid)];
    let request = (
        laws(),
        pasts(),
        0_u64..1_100,
        payment,
        prop::bool::weighted(0.2),
    );
    (origins(), vec(request, 1..5)).prop_map(|(origin, requests)| {
        let make = |(law, past, share, payment, shadow): (Law, Vec<Step>, _, _, _)| Request {
            amount: law.rule.capacity() * share / 1_000,
            key: Key::after(law, origin, &past),
            payment,
            shadow,
        };
        let mut requests: Vec<Request> = requests.into_iter().map(make).collect();
        let now = requests.iter().map(|request| request.key.now).max();
        requests
            .iter_mut()
            .for_each(|request| request.key.now = now.unwrap());
        requests
    })
}

/// What the parts of `requests` answer together at `now`.
fn composed(requests: &[Request], now: Timestamp) -> Verdict {
    let mut requests = requests.to_vec();
    requests
        .iter_mut()
        .for_each(|request| request.key.now = now);
    let mut parts: Vec<_> = requests.iter_mut().map(Request::part).collect();
    compose(&mut parts).verdict
}

proptest! {
    #[test]
    fn a_refusal_changes_nothing(requests in requests(), back in 0_i64..6_000) {
        let mut asked = requests.clone();
        let mut parts: Vec<_> = asked.iter_mut().map(Request::part).collect();
        compose(&mut parts);
        for (old, new) in requests.iter().zip(&asked) {
            prop_assert_eq!(&old.key.state, &new.key.state);
        }
        // A step back is noted, whatever the answer, as it would be by anyone.
        let refill = requests[0].key.refill.as_micros() as i64;
        let now = shift(requests[0].key.now, -(refill / 1_000 * back));
        asked.iter_mut().for_each(|request| request.key.now = now);
        for _ in 0..2 {
            let mut parts: Vec<_> = asked.iter_mut().map(Request::part).collect();
            compose(&mut parts);
            for (old, new) in requests.iter().zip(&asked) {
                prop_assert_eq!(&old.key.at(now).state, &new.key.state);
            }
        }
    }

    #[test]
    fn all_or_nothing_across_limits(requests in requests()) {
        let term = LeaseTerm { id: u128::MAX, expires_at: shift(requests[0].key.now, 1_000) };
        let mut asked = requests.clone();
        let mut parts: Vec<_> = asked.iter_mut().map(Request::part).collect();
        let answer = compose(&mut parts);
        let open = requests.iter().filter(|request| !request.shadow).all(Request::fits);
        prop_assert_eq!(answer.verdict.admitted(), open);
        prop_assert_eq!(answer.binding.is_none(), open);
        if let Some(binding) = answer.binding {
            prop_assert!(!requests[binding].shadow && !requests[binding].fits());
            prop_assert_eq!(parts[binding].verdict, answer.verdict);
            return Ok(());
        }
        commit(&mut parts, Some(term));
        let receipts: Vec<_> = parts.iter().map(|part| part.receipt).collect();
        for ((mut old, new), receipt) in requests.into_iter().zip(&asked).zip(receipts) {
            if old.fits() && old.amount > 0 {
                let time = old.key.decision_time();
                let alone = old.key.rule.charge(&mut old.key.state, old.amount, &time, Some(term));
                prop_assert_eq!(alone, receipt);
            }
            prop_assert_eq!(&old.key.state, &new.key.state);
        }
    }

    #[test]
    fn the_reported_instant_is_exact_across_limits(requests in requests()) {
        if let Verdict::NotUntil(at) = composed(&requests, requests[0].key.now) {
            prop_assert_eq!(composed(&requests, at), Verdict::Admit);
            prop_assert_eq!(composed(&requests, shift(at, -1)), Verdict::NotUntil(at));
        }
    }
}

/// Who holds what, kept by hand.
type Held = Vec<(u128, Amount, Timestamp)>;

/// One deed upon slots: what, for how long, by how much, to whom.
type Operation = (u8, i64, u64, usize);

/// Slots, and the same by hand.
struct Pair {
    slots: Slots,
    state: kernel::slots::State,
    held: Held,
    given: Held,
    fence: u64,
}

impl Pair {
    fn remaining(&self, now: Timestamp) -> Amount {
        let time = DecisionTime::at(now);
        self.slots.standing(&self.state, &time).remaining
    }

    fn grant(
        &mut self,
        weight: Amount,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), TestCaseError> {
        let fits = self.held.iter().map(|h| h.1).sum::<u64>() + weight <= self.slots.capacity();
        let verdict = self
            .slots
            .quote(&self.state, weight, &DecisionTime::at(now));
        prop_assert_eq!(verdict.admitted(), fits);
        if fits {
            let id = self.given.len() as u128;
            let fence = self.slots.grant(&mut self.state, id, weight, until, now);
            prop_assert!(fence > self.fence);
            self.fence = fence;
            self.held.push((id, weight, until));
            self.given.push((id, weight, until));
        }
        Ok(())
    }

    /// By an id that may be long gone, with the expiry as first granted.
    fn settle(
        &mut self,
        kind: u8,
        pick: usize,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), TestCaseError> {
        let Some(&(id, weight, old)) = self.given.get(pick % self.given.len().max(1)) else {
            return Ok(());
        };
        let found = self.held.iter().position(|h| h.0 == id);
        match kind {
            0 => {
                let released = self.slots.release(&mut self.state, id, old, now);
                prop_assert_eq!(released, found.is_some());
                found.map(|i| self.held.remove(i));
            }
            1 => {
                let renewed = self.slots.renew(&mut self.state, id, old, until, now);
                prop_assert_eq!(renewed, found.is_some());
                found.into_iter().for_each(|i| self.held[i].2 = until);
            }
            _ => {
                let resized = self.slots.resize(&mut self.state, id, old, weight / 2, now);
                prop_assert_eq!(resized, found.is_some());
                found.into_iter().for_each(|i| self.held[i].1 = weight / 2);
            }
        }
        Ok(())
    }

    fn agree(&self, now: Timestamp) -> Result<(), TestCaseError> {
        let sum: u64 = self.held.iter().map(|h| h.1).sum();
        prop_assert_eq!(sum + self.remaining(now), self.slots.capacity());
        let live = Slots::holders(&self.state, now);
        let mut live: Held = live.map(|h| (h.id, h.weight, h.expires_at)).collect();
        let mut held = self.held.clone();
        live.sort_unstable();
        held.sort_unstable();
        prop_assert_eq!(live, held);
        Ok(())
    }

    fn apply(&mut self, operation: Operation, now: Timestamp) -> Result<(), TestCaseError> {
        let (kind, hold, weight, pick) = operation;
        let until = shift(now, hold);
        self.held.retain(|h| h.2 > now);
        self.agree(now)?;
        match kind {
            0..3 => self.grant(weight, until, now)?,
            kind => self.settle(kind - 3, pick, until, now)?,
        }
        self.agree(now)
    }
}

proptest! {
    #[test]
    fn a_conserved_sum(
        capacity in 1_u64..30, origin in origins(),
        operations in vec((0_i64..300, (0_u8..6, 1_i64..1_000, 1_u64..12, any::<usize>())), 0..60),
    ) {
        let slots = Slots::new(capacity, Span::MILLISECOND).unwrap();
        let (held, given, state) = (Vec::new(), Vec::new(), Default::default());
        let mut pair = Pair { slots, state, held, given, fence: 0 };
        let mut now = origin;
        for (wait, operation) in operations {
            now = shift(now, wait);
            pair.apply(operation, now)?;
        }
        let end = shift(now, 1_000);
        prop_assert_eq!(pair.remaining(end), capacity);
    }
}
