//! A provider's token bucket, whose limit moves, before a gateway that is alone on its account: once
//! an answer has told the limit, no call is refused, and what the limit admits is used.
//!
//! As in `learning.rs`, a real limit set decides and a [`Learnt`] tells it the capacity, in virtual
//! time. Calls take a while to be answered, and nobody is asked to wait in between.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Algorithm, LeaseId, Limit, LimitSet, ManualClock, Request, Timestamp};
use tidegate_llm::learnt::{Came, Granted, Learnt, Order, Seen};

const MINUTE: Duration = Duration::from_secs(60);
const KEY: &str = "account";

/// The limit at the beginning, which the gateway knows.
const START: u64 = 1_000;

/// The provider: a bucket that drains by its limit, all the time.
struct Bucket {
    limit: u64,
    /// How often the limit was changed.
    nth: usize,
    /// In units times microseconds.
    level: u64,
    at: u64,
}

const PERIOD: u64 = 60_000_000;

impl Bucket {
    fn drain(&mut self, now: u64) {
        let drained = (now - self.at) * self.limit;
        (self.level, self.at) = (self.level.saturating_sub(drained), now);
    }

    /// Whether a call fits, which then is counted.
    fn call(&mut self, now: u64, amount: u64) -> bool {
        self.drain(now);
        let fits = self.level + amount * PERIOD <= self.limit * PERIOD;
        self.level += if fits { amount * PERIOD } else { 0 };
        fits
    }

    fn seen(&self, begin: Timestamp) -> Seen {
        let left = (self.limit * PERIOD).saturating_sub(self.level) / PERIOD;
        let full = self.at + self.level.div_ceil(self.limit);
        Seen {
            limit: Some(self.limit),
            remaining: Some(left),
            reset_at: Some(begin + Duration::from_micros(full).into()),
        }
    }
}

/// A call on its way.
#[derive(Debug)]
struct Call {
    granted: Granted,
    lease: LeaseId,
    takes: u64,
}

/// What happens next, in microseconds from the beginning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Next {
    Limit(u64),
    Answer(usize),
    Goes(usize),
    Asks(usize),
}

#[derive(Debug, Default)]
struct Played {
    refused: u64,
    /// Of these, after an answer had told the limit.
    though_told: u64,
    /// What the provider has admitted.
    admitted: u64,
}

/// Plays calls of `(after the one before, amount, time until its answer)` in milliseconds, and
/// changes of the limit.
fn play(calls: &[(u64, u64, u64)], changes: &[(u64, u64)]) -> Played {
    let clock = ManualClock::default();
    clock.advance(Duration::from_secs(60 * 1_000_000));
    let begin = clock.clock().now();
    let tokens = Limit::rate("tokens", START, MINUTE).algorithm(Algorithm::SlidingWindow);
    let set = LimitSet::builder()
        .clock(clock.clock())
        .limit(tokens.adaptive());
    let set = set.build().expect("a sound limit");
    let mut learnt = Learnt::new(START, MINUTE.into());
    let mut bucket = Bucket {
        limit: START,
        nth: 0,
        level: 0,
        at: 0,
    };
    let mut agenda = BinaryHeap::new();
    let mut at = 0;
    for (nth, (after, ..)) in calls.iter().enumerate() {
        at += after * 1_000;
        agenda.push(Reverse((at, Next::Asks(nth))));
    }
    for (at, limit) in changes {
        agenda.push(Reverse((at * 1_000, Next::Limit(*limit))));
    }
    let mut flying: Vec<Option<Call>> = calls.iter().map(|_| None).collect();
    let mut answers: Vec<Option<(Seen, Came, usize)>> = calls.iter().map(|_| None).collect();
    let (mut played, mut is_told, mut now) = (Played::default(), true, 0);
    while let Some(Reverse((at, next))) = agenda.pop() {
        clock.advance(Duration::from_micros(at - now));
        now = at;
        match next {
            Next::Limit(limit) => {
                bucket.drain(now);
                if bucket.limit != limit {
                    (bucket.limit, bucket.nth, is_told) = (limit, bucket.nth + 1, false);
                }
            }
            Next::Asks(nth) => {
                let (_, amount, takes) = calls[nth];
                set.set_capacity("tokens", learnt.capacity())
                    .expect("a capacity");
                let amounts = [("tokens", amount)];
                let asked = set.try_acquire(KEY, Request::from(&amounts).standings());
                let Some(lease) = asked.wait().ok().and_then(|asked| asked.granted()) else {
                    continue;
                };
                let decision = lease.decision().expect("asked for");
                let standing = decision.standing("tokens").expect("known");
                let order = Order {
                    at: lease.granted_at(),
                    nth: nth as u64,
                };
                let granted = learnt.granted(order, amount, &standing);
                let lease = lease.detach();
                flying[nth] = Some(Call {
                    granted,
                    lease,
                    takes,
                });
                agenda.push(Reverse((now, Next::Goes(nth))));
            }
            Next::Goes(nth) => {
                let call = flying[nth].as_mut().expect("it was granted");
                let at = clock.clock().now();
                if let Some(until) = learnt.waits(&call.granted, at) {
                    let until = until.since(begin).as_micros();
                    agenda.push(Reverse((until, Next::Goes(nth))));
                    continue;
                }
                learnt.sends(&mut call.granted, at);
                let fits = bucket.call(now, calls[nth].1);
                let came = if fits { Came::Accepted } else { Came::Refused };
                if fits {
                    played.admitted += calls[nth].1;
                } else {
                    played.refused += 1;
                    played.though_told += u64::from(is_told);
                }
                answers[nth] = Some((bucket.seen(begin), came, bucket.nth));
                agenda.push(Reverse((now + call.takes * 1_000, Next::Answer(nth))));
            }
            Next::Answer(nth) => {
                let call = flying[nth].take().expect("it was sent");
                let (seen, came, of) = answers[nth].take().expect("it was sent");
                is_told |= of == bucket.nth;
                let at = clock.clock().now();
                if let Some(elsewhere) = learnt.answered(&call.granted, seen, came, at) {
                    set.debit(KEY, &[("tokens", elsewhere.amount)])
                        .wait()
                        .expect("it is charged");
                }
                match came {
                    Came::Accepted => drop(set.release(KEY, call.lease).wait()),
                    _ => {
                        learnt.cancelled(&call.granted);
                        drop(set.cancel(KEY, call.lease).wait());
                    }
                }
            }
        }
    }
    played
}

/// The hour of real calls had one: what a bucket held when its limit fell drains at the pace of the
/// lower limit, and a window had nothing left of it after a minute. What it granted at once was sent
/// at once, and the last of it was refused.
#[test]
fn a_fall_of_the_limit_is_not_forgotten_before_the_provider_forgets_it() {
    let burst = |after, amount| {
        [(after, amount, 300)]
            .into_iter()
            .chain([(0, amount, 300); 9])
    };
    let full = burst(0, 51).chain(burst(20_000, 49));
    // When the window has forgotten half, one call is told of the fall. Later it forgets the rest.
    let calls = full.chain([(41_500, 5, 300)]).chain(burst(20_000, 49));
    let played = play(&calls.collect::<Vec<_>>(), &[(21_000, 500)]);
    assert_eq!((played.refused, played.admitted), (0, 1_495), "{played:?}");
}

/// A second fall was taken for the first: what the bucket held from before that was forgotten.
#[test]
fn what_was_counted_before_two_falls_is_not_forgotten_by_the_second() {
    let burst = [
        (257769, 71),
        (0, 6),
        (0, 14),
        (0, 20),
        (1050, 94),
        (0, 31),
        (0, 63),
        (0, 52),
        (0, 16),
        (17, 88),
        (0, 6),
        (0, 74),
        (12, 44),
        (10, 23),
        (29, 96),
        (0, 88),
        (0, 81),
        (0, 20),
        (0, 16),
        (0, 77),
        (0, 27),
        (30, 9),
        (30, 65),
        (17, 16),
        (9, 85),
        (534, 69),
        (31, 51),
    ];
    // Told of the first fall, then of the second, while most of it is still counted.
    let later = [
        (11400, 59),
        (0, 1),
        (11689, 1),
        (13962, 1),
        (4958, 1),
        (30, 1),
        (17423, 21),
        (0, 1),
    ];
    let calls = burst.into_iter().chain(later);
    let calls: Vec<_> = calls.map(|(after, amount)| (after, amount, 100)).collect();
    let played = play(&calls, &[(0, 960), (258837, 203), (282628, 200)]);
    assert_eq!(played.though_told, 0, "{played:?}");
}

/// An answer to a call that had waited was taken for older than what was known, because its grant was:
/// the limit that it told was not gone by.
#[test]
fn what_an_answer_tells_is_as_new_as_its_call_was_sent() {
    let full = [30, 92, 92, 40, 79, 74, 32, 28, 87].map(|amount| (0, amount, 100));
    let more = [
        (5523, 38, 100),
        (0, 57, 100),
        (0, 27, 100),
        (0, 78, 100),
        (15204, 96, 100),
        (20, 14, 100),
        (6, 47, 100),
        (449, 64, 100),
    ];
    // Told of the first fall; then one waits that is granted before another, and is told of the second.
    let told = [(18631, 1), (24, 1), (4346, 1), (18684, 1)].map(|(after, one)| (after, one, 100));
    let waits = [
        (8968, 93, 958),
        (14, 40, 944),
        (0, 9, 944),
        (17, 23, 100),
        (0, 17, 927),
        (9114, 1, 100),
    ];
    let calls: Vec<_> = full
        .into_iter()
        .chain(more)
        .chain(told)
        .chain(waits)
        .collect();
    let played = play(&calls, &[(21_472, 398), (74_531, 200)]);
    assert_eq!(played.though_told, 0, "{played:?}");
}

/// What comes at any pace: in bursts with pauses that a bucket drains in, too, and with answers that
/// take longer than the next call's.
fn calls() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let pause = prop_oneof![3 => 0..50_u64, 1 => 0..20_000_u64];
    let spread = prop::collection::vec((pause, 1..100_u64, 100..4_000_u64), 1..400);
    let pause = prop_oneof![9 => 0..20_u64, 1 => 0..90_000_u64];
    let bursts = prop::collection::vec((pause, 1..180_u64, 100..40_000_u64), 1..600);
    prop_oneof![spread, bursts]
}

/// When the limit changes, and to what: to one that was before, too, and by little.
fn changes() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let limit = prop_oneof![200..2_000_u64, 200..300_u64, Just(START)];
    prop::collection::vec((0..600_000_u64, limit), 0..10)
}

proptest! {
    #[test]
    fn nobody_is_refused_once_an_answer_has_told_the_limit(calls in calls(), changes in changes()) {
        let played = play(&calls, &changes);
        prop_assert_eq!(played.though_told, 0, "{:?}", played);
    }
}
