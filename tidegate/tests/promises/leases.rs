//! What is held is ended once, comes back once, and is never lost.

use std::mem::ManuallyDrop;
use std::thread;

use proptest::prelude::*;
use tidegate::{Lease, Limit, LimitSet, ManualClock};

use crate::history::{builder, cases, micros};

const TTL: u64 = 5_000;

/// Slots of one key beside a rate that never runs out.
fn slots(time: &ManualClock, count: u64) -> LimitSet {
    let limits = vec![
        Limit::concurrency("slots", count).ttl(micros(TTL)),
        Limit::budget("used", 1_000_000, micros(400_000_000)),
    ];
    let builder = LimitSet::builder().limits(limits).clock(time.clock());
    builder.build().expect("sensible limits")
}

fn free(set: &LimitSet) -> u64 {
    set.peek("k", 1)
        .wait()
        .unwrap()
        .standing("slots")
        .unwrap()
        .remaining
}

fn used(set: &LimitSet) -> u64 {
    1_000_000
        - set
            .peek("k", 1)
            .wait()
            .unwrap()
            .standing("used")
            .unwrap()
            .remaining
}

fn take(set: &LimitSet, weight: u64) -> Option<Lease> {
    let request = [("slots", weight), ("used", 10)];
    set.try_acquire("k", &request)
        .wait()
        .expect("no error")
        .granted()
}

/// A settlement that arrives before, at and after the expiry; with the expiry
/// seen by somebody else before, or not; and once more.
#[test]
fn every_lease_is_settled_at_most_once_and_its_slots_return_once() {
    for (late, seen, report) in [-1, 0, 1, 999].into_iter().flat_map(|late| {
        let cases = [(false, 4), (true, 4), (false, 25), (true, 25)];
        cases.map(|(seen, report)| (late, seen, report))
    }) {
        let time = ManualClock::default();
        let set = slots(&time, 3);
        let first = ManuallyDrop::new(take(&set, 2).expect("free"));
        time.advance(micros((TTL as i64 + late) as u64));
        let other = seen.then(|| take(&set, 1).expect("one is free either way"));
        let settled = set
            .settle("k", first.id(), &[("used", report)])
            .wait()
            .unwrap();
        assert_eq!(settled.expired(), late >= 0);
        let others = u64::from(seen);
        assert_eq!((free(&set), used(&set)), (3 - others, report + 10 * others));
        for _ in 0..2 {
            let again = set
                .settle("k", first.id(), &[("used", 500)])
                .wait()
                .unwrap();
            assert!(again.repeated());
            assert_eq!(again.usage("used"), settled.usage("used"));
            assert_eq!((free(&set), used(&set)), (3 - others, report + 10 * others));
        }
        drop(other);
        assert_eq!(free(&set), 3);
    }
}

/// Threads that settle the same leases while the clock takes them to their
/// expiry: each is settled once, whoever comes first.
#[test]
fn every_lease_is_settled_at_most_once_by_threads_that_race_with_its_expiry() {
    for _ in 0..50 {
        let time = ManualClock::default();
        let set = slots(&time, 8);
        let leases: Vec<_> = (0..8)
            .map(|_| ManuallyDrop::new(take(&set, 1).expect("free")))
            .collect();
        let settle = || {
            let one = |lease: &ManuallyDrop<Lease>| {
                let settled = set.settle("k", lease.id(), &[("used", 3)]);
                !settled.wait().expect("remembered").repeated()
            };
            leases.iter().filter(|lease| one(lease)).count()
        };
        let firsts: usize = thread::scope(|scope| {
            let threads = [scope.spawn(settle), scope.spawn(settle)];
            time.advance(micros(TTL));
            threads
                .map(|thread| thread.join().unwrap())
                .into_iter()
                .sum()
        });
        assert_eq!((firsts, free(&set), used(&set)), (8, 8, 24));
    }
}

/// Holders that are killed, that panic, that renew and then vanish: what they
/// hold is back at the end of their lease, and not a microsecond before.
#[test]
fn no_permit_is_lost() {
    let time = ManualClock::default();
    let set = slots(&time, 4);
    let _killed = ManuallyDrop::new(take(&set, 1).expect("free"));
    let mut vanishing = ManuallyDrop::new(take(&set, 2).expect("free"));
    let theirs = set.clone();
    let panicking = thread::spawn(move || {
        let _held = take(&theirs, 1).expect("free");
        panic!("the work failed");
    });
    assert!(panicking.join().is_err());
    assert_eq!(free(&set), 1, "a panic gives back at once");
    time.advance(micros(TTL - 1));
    vanishing.renew(micros(TTL)).wait().unwrap();
    assert_eq!(free(&set), 1);
    time.advance(micros(1));
    assert_eq!(free(&set), 2, "the killed one's");
    time.advance(micros(TTL - 2));
    assert_eq!(free(&set), 2);
    time.advance(micros(1));
    assert_eq!(free(&set), 4, "and the vanished one's");
}

/// What the set should say of its slots, kept by hand.
struct Counted {
    leases: Vec<(Lease, u64)>,
    /// Weight and expiry of leases whose holders were killed.
    lost: Vec<(u64, u64)>,
    now: u64,
}

impl Counted {
    fn held(&self) -> u64 {
        let live = self.leases.iter().filter(|(lease, _)| !lease.is_expired());
        let lost = self.lost.iter().filter(|(_, until)| *until > self.now);
        live.map(|(_, weight)| weight).sum::<u64>() + lost.map(|(weight, _)| weight).sum::<u64>()
    }

    fn step(&mut self, set: &LimitSet, deed: u8, weight: u64) -> Result<(), TestCaseError> {
        let fits = self.held() + weight <= 6;
        match deed {
            0..4 => {
                let lease = take(set, weight);
                prop_assert_eq!(lease.is_some(), fits);
                self.leases.extend(lease.map(|lease| (lease, weight)));
            }
            4 => drop(self.leases.pop()),
            5 => self.crash(),
            6 => {
                if let Some((mut lease, _)) = self.leases.pop() {
                    lease
                        .settle(&[("used", weight)])
                        .wait()
                        .expect("it was held");
                }
            }
            _ => {
                if let Some((lease, _)) = self.leases.last_mut() {
                    let renewed = lease.renew(micros(1_000 * weight));
                    prop_assert_eq!(renewed.wait().is_err(), lease.is_expired());
                }
            }
        }
        Ok(())
    }

    /// A holder is killed: nothing of it runs any more.
    fn crash(&mut self) {
        if let Some((lease, weight)) = self.leases.pop() {
            let left = lease.expires_at().as_micros() - 1_767_268_800_000_000;
            self.lost.push((weight, left as u64));
            let _killed = ManuallyDrop::new(lease);
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    /// Held and free make up the capacity, whoever crashed, renewed or came late.
    #[test]
    fn a_conserved_sum(
        deeds in prop::collection::vec((0_u8..8, 1_u64..5, 0_u64..2_500), 1..60),
    ) {
        let time = ManualClock::default();
        let set = slots(&time, 6);
        let mut counted = Counted { leases: Vec::new(), lost: Vec::new(), now: 0 };
        for (deed, weight, gap) in deeds {
            time.advance(micros(gap));
            counted.now += gap;
            counted.step(&set, deed, weight)?;
            prop_assert_eq!(counted.held() + free(&set), 6);
        }
        drop(counted);
        time.advance(micros(TTL));
        prop_assert_eq!(free(&set), 6);
    }

    /// The same of what is used of a rate: as much as was reported.
    #[test]
    fn a_conserved_sum_of_what_was_used(
        asks in prop::collection::vec((1_u64..30, 0_u64..60, 0_u8..4), 1..30),
    ) {
        let time = ManualClock::default();
        let limit = Limit::budget("used", 1_000_000, micros(400_000_000));
        let set = builder(&time, vec![limit]).build().unwrap();
        let mut sum = 0;
        for (taken, reported, end) in asks {
            let mut lease = set.try_acquire("k", taken).wait().unwrap().granted().unwrap();
            match end {
                0 => drop(lease.settle(&[("used", reported)]).wait().unwrap()),
                1 => drop(lease.cancel().wait().unwrap()),
                2 => drop(lease),
                _ => {
                    let _killed = ManuallyDrop::new(lease);
                }
            }
            sum += [reported, 0, taken, taken][usize::from(end)];
            time.advance(micros(700));
            let left = set.peek("k", 1).wait().unwrap().standing("used").unwrap().remaining;
            prop_assert_eq!(left, 1_000_000 - sum);
        }
    }
}
