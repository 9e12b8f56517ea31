//! Random histories beside an independent ledger: the sum over hours is what was settled, to
//! the unit, in the hour that was charged.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{Amount, MAX_AMOUNT};
use tidegate_store::{
    Ending, Granted, Hour, Hours, Plan, PlanLimit, Select, Store, StoreError, Verb,
};

use super::fixture::{Fixture, rate, slots, table_name};
use super::usage_fixture::{KEPT, ample, needs_counting, usage};
use crate::fixture::{KEEP, SECOND, hourly, limit};
use crate::rng::Rng;
use crate::subject::{Skipped, Subject};

/// How many histories, unless `TIDEGATE_USAGE_HISTORIES` says so.
const HISTORIES: u64 = 1_000;

/// Of a store that takes its time.
const FEW: u64 = 30;

const HOUR: u64 = 3_600 * SECOND;

/// The limits are called so on purpose.
const NAMES: [&str; 4] = ["ttl", "window", "total", "running"];

type Place = (Vec<u8>, &'static str, u32);

/// What an independent ledger knows of a lease.
struct Entry {
    key: Vec<u8>,
    granted: Granted,
    taken: [Amount; 4],
    /// Until when it is held, by whom it was asked last.
    until: i64,
    /// What it has settled, once it is over.
    settled: Option<[Amount; 4]>,
}

/// A history: a table, and a ledger of what it was asked and admitted.
struct History<'s> {
    subject: &'s Subject,
    name: String,
    /// The table, and its store; between two processes there is none.
    open: Option<(Fixture, Arc<dyn Store>)>,
    random: Rng,
    levels: usize,
    entries: Vec<Entry>,
    plain: BTreeMap<Place, u64>,
}

/// One level each but the last, which every key reaches, or all on one. Of buckets and slots alone, if
/// that is what is asked for: most stores have a way of its own for these.
fn plan(levels: usize, refunds: bool, buckets: bool) -> Arc<Plan> {
    let rules = match buckets {
        true => [rate(1_000, 1 << 40), rate(1, 400), rate(1, 300), slots(6)],
        false => [ample(), hourly(400), rate(1, 300), slots(6)],
    };
    let limits = rules.into_iter().enumerate().map(|(at, rule)| PlanLimit {
        refund_on_expiry: refunds && at == 1,
        ..limit(NAMES[at], at as u32, at.min(levels - 1), rule)
    });
    let plan = Plan::new(0, levels, limits.collect(), KEEP).counting_usage(Some(KEPT));
    Arc::new(plan)
}

pub(super) fn random_histories_add_up_in_the_hours_that_were_charged(
    subject: &Subject,
) -> Result<(), Skipped> {
    needs_counting(subject)?;
    let own_clock = subject.abilities().own_clock;
    let said = std::env::var("TIDEGATE_USAGE_HISTORIES").ok();
    let said = said.and_then(|count| count.parse().ok());
    let is_slow = own_clock || subject.reopened_store().is_ok();
    let count = said.unwrap_or(if is_slow { FEW } else { HISTORIES });
    for seed in 0..count {
        History::new(subject, seed).run(own_clock);
    }
    Ok(())
}

impl<'s> History<'s> {
    fn new(subject: &'s Subject, seed: u64) -> Self {
        let mut random = Rng::new(seed);
        let levels = random.between(1, 3) as usize;
        let refunds = random.percent(30);
        let buckets = random.percent(40);
        let (store, name) = (subject.fresh(), table_name());
        let fixture = Fixture::remembering(&*store, &name, plan(levels, refunds, buckets));
        Self {
            subject,
            name,
            open: Some((fixture, store)),
            random,
            levels,
            entries: Vec::new(),
            plain: BTreeMap::new(),
        }
    }

    fn run(mut self, own_clock: bool) {
        let steps = self.random.between(5, 40);
        for _ in 0..steps {
            match self.random.below(100) {
                0..=19 => self.charge(),
                20..=44 => self.lease(),
                45..=59 => self.adjust(),
                60..=79 => self.end(),
                80..=84 => self.reset(),
                85..=89 => self.die(),
                // By a server's clock all is of this hour, or of the next.
                _ if own_clock => {}
                _ => self.pass(),
            }
        }
        self.compare(own_clock);
    }

    fn fixture(&self) -> &Fixture {
        &self.open.as_ref().expect("a process is there").0
    }

    fn key(&mut self) -> Vec<u8> {
        let segment = |random: &mut Rng| (*random.pick(&["a", "b"])).to_owned();
        let segments: Vec<_> = (0..self.levels)
            .map(|_| segment(&mut self.random))
            .collect();
        segments.join("/").into_bytes()
    }

    fn amounts(&mut self) -> [Amount; 4] {
        let mut amounts = [0; 4];
        for amount in &mut amounts[..3] {
            *amount = match self.random.below(10) {
                0..=2 => 0,
                3..=7 => self.random.between(1, 90),
                8 => self.random.between(200, 500),
                _ => 1,
            };
        }
        amounts[3] = self.random.below(3);
        amounts
    }

    fn now(&self) -> i64 {
        self.fixture().now().as_micros()
    }

    /// Notes what was used of a key's rows in an hour.
    fn note(
        plain: &mut BTreeMap<Place, u64>,
        (key, levels): (&[u8], usize),
        hour: u32,
        used: &[Amount],
    ) {
        for (at, &amount) in used.iter().enumerate().take(3) {
            if amount > 0 {
                let place = (row(key, at.min(levels - 1)), NAMES[at], hour);
                *plain.entry(place).or_default() += amount;
            }
        }
    }

    fn charge(&mut self) {
        let (key, mut amounts) = (self.key(), self.amounts());
        amounts[3] = 0;
        let is_charged = match self.random.percent(50) {
            true => self.fixture().admits(&key, &amounts),
            false => {
                self.fixture().debit(&key, &amounts);
                true
            }
        };
        if is_charged {
            let hour = Hour::of(self.fixture().now()).number();
            Self::note(&mut self.plain, (&key, self.levels), hour, &amounts);
        }
    }

    fn lease(&mut self) {
        let (key, amounts) = (self.key(), self.amounts());
        let lasts = match self.random.percent(40) {
            true => self.random.between(1, 20) * SECOND * 60,
            false => self.random.between(1, 9) * HOUR,
        };
        let idempotency = self.random.percent(60);
        let idempotency = idempotency.then(|| vec![self.random.below(6) as u8]);
        let deliveries = 1 + self.random.below(3) * u64::from(idempotency.is_some());
        for _ in 0..deliveries {
            let idempotency = idempotency.as_deref();
            let asked = self.fixture().lease_by(&key, &amounts, lasts, idempotency);
            let Some(granted) = asked.expect("an answer").lease else {
                continue;
            };
            let known = self.entries.iter().any(|of| of.granted.id == granted.id);
            assert_eq!(
                known, granted.repeated,
                "a repeat is of a lease that is known"
            );
            if !known {
                self.entries.push(Entry {
                    key: key.clone(),
                    granted,
                    taken: amounts,
                    until: granted.expires_at.as_micros(),
                    settled: None,
                });
            }
        }
    }

    fn one(&mut self) -> Option<usize> {
        let count = self.entries.len() as u64;
        (count > 0).then(|| self.random.below(count) as usize)
    }

    fn adjust(&mut self) {
        let Some(at) = self.one() else { return };
        let (key, id) = (self.entries[at].key.clone(), self.entries[at].granted.id);
        let wanted = self.amounts();
        let says: Vec<Option<Amount>> = (0..4)
            .map(|limit| self.random.percent(60).then_some(wanted[limit]))
            .collect();
        let verb = Verb::Adjust {
            id,
            to: &says,
            overdraw: self.random.percent(40),
            detail: tidegate_store::Detail::Verdict,
        };
        for _ in 0..=self.random.below(2) {
            match self.fixture().decide(&key, verb) {
                Ok(decision) if decision.verdict.admitted() => {
                    let entry = &mut self.entries[at];
                    assert!(entry.settled.is_none());
                    for (taken, said) in entry.taken.iter_mut().zip(&says) {
                        *taken = said.unwrap_or(*taken);
                    }
                }
                Ok(_) => {}
                Err(StoreError::LeaseEnded(_) | StoreError::UnknownLease) => {
                    let is_over = self.entries[at].settled.is_some();
                    assert!(is_over || self.entries[at].until <= self.now());
                }
                Err(error) => panic!("an adjustment is answered by {error}"),
            }
        }
    }

    fn end(&mut self) {
        let Some(at) = self.one() else { return };
        let (key, id) = (self.entries[at].key.clone(), self.entries[at].granted.id);
        let taken = self.entries[at].taken;
        let used = self.amounts();
        let says: Vec<Option<Amount>> = (0..4)
            .map(|limit| self.random.percent(70).then_some(used[limit]))
            .collect();
        let fails: Vec<bool> = (0..4).map(|_| self.random.percent(50)).collect();
        let (ending, settled): (Ending<'_>, [Amount; 4]) = match self.random.below(4) {
            0 => (Ending::Cancel, [0; 4]),
            1 => (Ending::Release, taken),
            2 => {
                let left = |at: usize| if fails[at] { 0 } else { taken[at] };
                (Ending::Fail(&fails), std::array::from_fn(left))
            }
            _ => {
                let left = |at: usize| says[at].unwrap_or(taken[at]);
                (Ending::Settle(&says), std::array::from_fn(left))
            }
        };
        for delivery in 0..=self.random.below(2) {
            match self.fixture().end(&key, id, ending) {
                Ok(settlement) => {
                    let entry = &mut self.entries[at];
                    assert_eq!(settlement.repeated, entry.settled.is_some());
                    entry.settled.get_or_insert(settled);
                }
                Err(StoreError::UnknownLease) => {
                    assert_eq!(delivery, 0, "it is remembered");
                    // Forgotten: what it has not settled by then stays as it was taken.
                    return;
                }
                Err(error) => panic!("an end is answered by {error}"),
            }
        }
    }

    fn reset(&mut self) {
        let key = self.key();
        self.fixture()
            .execute(&key, Verb::Reset)
            .expect("an answer");
    }

    fn pass(&mut self) {
        let micros = match self.random.below(3) {
            0 => self.random.between(1, 90) * SECOND,
            1 => self.random.between(1, 40) * 60 * SECOND,
            _ => self.random.between(1, 5) * HOUR,
        };
        self.fixture().pass(micros as i64);
    }

    /// The process is killed, and another goes on; who held leases is gone.
    fn die(&mut self) {
        let Ok(reopened) = self.subject.reopened_store() else {
            return;
        };
        let (now, last) = (self.fixture().now(), self.fixture().last_lease());
        let plan = Arc::clone(&self.fixture().plan);
        drop(self.open.take());
        let store = reopened();
        let fixture = Fixture::remembering(&*store, &self.name, plan);
        fixture.set_now(now);
        fixture.number_from(last);
        self.open = Some((fixture, store));
    }

    /// What the independent ledger has comes to the same.
    fn compare(&mut self, own_clock: bool) {
        let refunds = self.fixture().plan.limits().iter();
        let refunds: Vec<bool> = refunds.map(|limit| limit.refund_on_expiry).collect();
        let now = self.now();
        // Somebody's command on each root finds what has expired.
        for root in [&b"a"[..], b"b"] {
            let _ = self.fixture().left(root);
        }
        let mut expected = std::mem::take(&mut self.plain);
        for entry in &self.entries {
            let mut used = entry.settled.unwrap_or(entry.taken);
            if entry.settled.is_none() && entry.until <= now && !own_clock {
                for (used, refunds) in used.iter_mut().zip(&refunds) {
                    *used = if *refunds { 0 } else { *used };
                }
            }
            let hour = Hour::of(entry.granted.granted_at).number();
            Self::note(&mut expected, (&entry.key, self.levels), hour, &used);
        }
        assert!(expected.values().all(|amount| *amount <= MAX_AMOUNT));
        let mut told = BTreeMap::new();
        for used in usage(self.fixture(), Select::All, Hours::ALL, 11) {
            let name = NAMES.iter().find(|name| **name == &*used.limit);
            let name = *name.expect("a limit of the plan");
            let place = (used.key.bytes().to_vec(), name, used.hour.number());
            let before = told.insert(place, used.amount);
            assert_eq!(before, None, "each record is told once");
        }
        if own_clock {
            (expected, told) = (without_hours(expected), without_hours(told));
        }
        assert_eq!(told, expected);
    }
}

/// By a clock that is not the test's, all that is known is the sum.
fn without_hours(places: BTreeMap<Place, u64>) -> BTreeMap<Place, u64> {
    let mut sums = BTreeMap::new();
    for ((key, limit, _), amount) in places {
        *sums.entry((key, limit, 0)).or_default() += amount;
    }
    sums
}

/// The row of a composed key at a level.
fn row(key: &[u8], level: usize) -> Vec<u8> {
    let segments = key.split(|byte| *byte == b'/');
    let segments: Vec<_> = segments.take(level + 1).collect();
    segments.join(&b'/')
}
