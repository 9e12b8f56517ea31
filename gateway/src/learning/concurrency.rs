//! How many calls an upstream can serve at once, learnt from how its answers come.
//!
//! An estimator makes a limit of what is measured, and grants nothing: the limit is the capacity of a
//! concurrency limit, which travels with each command, so that gateways on one store hold together
//! no more than the largest of their limits. What was in flight is the store's count, so that they
//! estimate the same thing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};
use tidegate::adaptive::{Estimator, Sample};
use tidegate::{Limit, MAX_AMOUNT, Outcome, Standing, Timestamp};

use crate::settings::ConcurrencyBy;

/// It grows to so many times what it starts with.
const GROWTH: u64 = 8;

/// So many more of one kind are looked at before those of another are.
const LEAD: u32 = 100;

/// What is measured of an answer: one of them is for each limit, as they do not compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measured {
    /// Of a stream, the time until its first token. Its whole time is that of its length.
    FirstToken,
    /// Of another answer, the time for each of its tokens.
    EachToken,
    /// The whole time of an answer that has none.
    Whole,
}

/// How a call went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Went {
    /// It was answered, and took so long.
    Took(Measured, Duration),
    /// It was refused for want of room, or not answered in time, which took so long: it tells whether
    /// the call began before the limit was lowered.
    Dropped(Duration),
}

/// A concurrency limit that is learnt.
pub struct Concurrency {
    /// Its policy, its member and its own name: what it is whatever number it starts with.
    name: [String; 3],
    learnt: Mutex<Learnt>,
    /// How many calls this gateway has in flight, those too that were granted before the file was
    /// changed.
    ours: Arc<AtomicUsize>,
    shown: Shown,
}

struct Learnt {
    by: ConcurrencyBy,
    most: u64,
    estimator: Estimator,
    measured: Measured,
    /// How many more there were of those that are looked at than of others.
    lead: u32,
}

/// A call that counts against a concurrency limit.
pub struct InFlight {
    limit: Arc<Concurrency>,
    /// What was in flight with it.
    count: u64,
}

impl Concurrency {
    /// `others` are in use, too.
    pub(super) fn new(
        (policy, member): (&str, &str),
        limit: &Limit,
        by: ConcurrencyBy,
        others: &[Arc<Self>],
    ) -> Self {
        let name = [policy, member, limit.name()].map(str::to_owned);
        let same = others.iter().find(|other| other.name == name);
        let start = limit.capacity();
        let most = start.saturating_mul(GROWTH).min(MAX_AMOUNT);
        let learnt = Learnt {
            by,
            most,
            estimator: by.estimator(start, most),
            measured: Measured::FirstToken,
            lead: 0,
        };
        Self {
            name,
            learnt: Mutex::new(learnt),
            ours: same.map_or_else(Arc::default, |same| Arc::clone(&same.ours)),
            shown: Shown::new(policy, member, limit.name()),
        }
    }

    fn learnt(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it grants.
    pub(super) fn capacity(&self) -> u64 {
        self.learnt().estimator.limit()
    }

    /// A call was granted, after which it stood so.
    pub(super) fn granted(self: &Arc<Self>, standing: &Standing) -> InFlight {
        self.ours.fetch_add(1, Ordering::Relaxed);
        self.shown.stands(standing);
        InFlight {
            limit: Arc::clone(self),
            count: in_flight(standing),
        }
    }

    /// A call was refused, where it stood so. If others hold more than the limit here, and this
    /// gateway nothing, it has nothing to learn from: it goes by what they hold.
    pub(super) fn refused(&self, standing: &Standing) {
        let held = in_flight(standing);
        let mut learnt = self.learnt();
        if self.ours.load(Ordering::Relaxed) == 0 && held > learnt.estimator.limit() {
            learnt.estimator = learnt.estimator.clone().starting_at(held);
        }
    }

    /// Whether it grants another number after a call that went so.
    fn went(&self, in_flight: u64, went: Went, now: Timestamp) -> bool {
        let mut learnt = self.learnt();
        let before = learnt.estimator.limit();
        let (outcome, signal) = match went {
            Went::Took(measured, time) if learnt.looks_at(measured) => {
                self.shown.signal.set(time.as_secs_f64());
                (Outcome::Succeeded, time)
            }
            Went::Took(..) => (Outcome::Ignored, Duration::ZERO),
            Went::Dropped(time) => (Outcome::Dropped, time),
        };
        self.shown.count(outcome);
        let sample = Sample {
            at: now,
            signal,
            in_flight,
            outcome,
        };
        let after = learnt.estimator.observe(&sample);
        self.shown.limit.set(after as f64);
        after != before
    }
}

impl Learnt {
    /// Whether the estimator goes by what is measured so: the kind that most calls are of. Of another
    /// kind it starts anew, from the limit at hand.
    fn looks_at(&mut self, measured: Measured) -> bool {
        if self.measured == measured {
            self.lead = (self.lead + 1).min(LEAD);
            return true;
        }
        if let Some(less) = self.lead.checked_sub(1) {
            self.lead = less;
            return false;
        }
        (self.measured, self.lead) = (measured, 1);
        self.estimator = self.by.estimator(self.estimator.limit(), self.most);
        true
    }
}

impl InFlight {
    /// Whether the limit grants another number after a call that went so.
    pub(super) fn went(&self, went: Went, now: Timestamp) -> bool {
        self.limit.went(self.count, went, now)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.limit.ours.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is in flight, by where a limit stands.
const fn in_flight(standing: &Standing) -> u64 {
    (standing.limit + standing.debt).saturating_sub(standing.remaining)
}

impl ConcurrencyBy {
    /// One that begins with `start`, and goes to `most` at most.
    fn estimator(self, start: u64, most: u64) -> Estimator {
        // Only what the provider refuses or does not answer counts as dropped, however long the rest took.
        let estimator = match self {
            Self::GuardedVegas => Estimator::guarded_vegas(),
            Self::Aimd => Estimator::aimd(Duration::MAX),
            Self::Vegas => Estimator::vegas(),
            Self::Gradient2 => Estimator::gradient2(),
        };
        let estimator = estimator.within(1..=most).expect("amounts from 1 on");
        estimator.starting_at(start)
    }
}

/// What is learnt, for who looks at it.
struct Shown {
    limit: Gauge,
    remaining: Gauge,
    signal: Gauge,
    succeeded: Counter,
    dropped: Counter,
    ignored: Counter,
}

impl Shown {
    fn new(policy: &str, member: &str, limit: &str) -> Self {
        let of = [
            ("policy", policy.to_owned()),
            ("member", member.to_owned()),
            ("limit", limit.to_owned()),
        ];
        let samples = |outcome: &str| {
            let mut labels = of.to_vec();
            labels.push(("outcome", outcome.to_owned()));
            counter!("tidegate_gateway_samples_total", &labels)
        };
        Self {
            limit: gauge!("tidegate_gateway_limit", &of),
            remaining: gauge!("tidegate_gateway_remaining", &of),
            signal: gauge!("tidegate_gateway_signal_seconds", &of),
            succeeded: samples("succeeded"),
            dropped: samples("dropped"),
            ignored: samples("ignored"),
        }
    }

    fn stands(&self, standing: &Standing) {
        self.limit.set(standing.limit as f64);
        self.remaining.set(standing.remaining as f64);
    }

    fn count(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Succeeded => &self.succeeded,
            Outcome::Dropped => &self.dropped,
            Outcome::Ignored => &self.ignored,
        };
        counter.increment(1);
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use tidegate::Span;
    use tidegate_llm::Provider;
    use tidegate_sim::call::{Call, Shape};
    use tidegate_sim::settings::{Pace, Settings};
    use tidegate_sim::sim::{End, Reply, Sim};

    use super::*;

    fn concurrency(start: u64) -> Arc<Concurrency> {
        let limit = Limit::concurrency("running", start);
        concurrency_beside(&limit, &[])
    }

    fn concurrency_beside(limit: &Limit, others: &[Arc<Concurrency>]) -> Arc<Concurrency> {
        let by = ConcurrencyBy::Aimd;
        Arc::new(Concurrency::new(("llm", ""), limit, by, others))
    }

    fn standing(limit: u64, held: u64) -> Standing {
        Standing {
            limit,
            remaining: limit.saturating_sub(held),
            debt: held.saturating_sub(limit),
            replenish_at: None,
            full_at: None,
        }
    }

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    const DROPPED: Went = Went::Dropped(Duration::from_millis(80));

    fn took(measured: Measured) -> Went {
        Went::Took(measured, Duration::from_millis(80))
    }

    #[test]
    fn what_was_dropped_lowers_it_and_what_was_answered_raises_it_within_its_range() {
        let limit = concurrency(20);
        let call = limit.granted(&standing(20, 20));
        assert!(call.went(took(Measured::FirstToken), NOW));
        assert_eq!(limit.capacity(), 21);
        assert!(call.went(DROPPED, NOW));
        assert_eq!(limit.capacity(), 18);
        for second in 1..=200 {
            // Each began after the one before had lowered it.
            call.went(DROPPED, NOW + Span::from_secs(second));
        }
        assert_eq!(limit.capacity(), 1);
        let many = limit.granted(&standing(160, 160));
        for _ in 0..400 {
            many.went(took(Measured::FirstToken), NOW);
        }
        assert_eq!(limit.capacity(), 160, "eight times the start");
    }

    /// Each refusal of a burst lowered it again, down to one.
    #[test]
    fn a_burst_that_is_refused_lowers_it_once() {
        let limit = concurrency(64);
        let burst: Vec<InFlight> = (1..=40)
            .map(|held| limit.granted(&standing(64, held)))
            .collect();
        let later = NOW + Span::from_secs(1);
        for call in &burst {
            call.went(Went::Dropped(Duration::from_secs(1)), later);
        }
        assert_eq!(limit.capacity(), 57);
        let next = limit.granted(&standing(57, 40));
        let later = later + Span::from_secs(2);
        assert!(next.went(Went::Dropped(Duration::from_secs(1)), later));
        assert_eq!(limit.capacity(), 51, "one that began after it");
    }

    /// The time to a first token and the time for each token do not compare: an estimator that saw
    /// both took a change of the mix for a change of load.
    #[test]
    fn it_goes_by_the_kind_of_answer_that_most_calls_have() {
        let limit = concurrency(20);
        let call = limit.granted(&standing(20, 20));
        assert!(call.went(took(Measured::FirstToken), NOW));
        for _ in 0..3 {
            call.went(took(Measured::FirstToken), NOW);
        }
        assert_eq!(limit.capacity(), 24);
        for _ in 0..4 {
            assert!(!call.went(took(Measured::EachToken), NOW), "four to none");
        }
        assert_eq!(limit.capacity(), 24);
        assert!(call.went(took(Measured::EachToken), NOW), "most, by now");
        assert!(!call.went(took(Measured::FirstToken), NOW));
        assert!(call.went(DROPPED, NOW), "whatever kind it would have been");
    }

    #[test]
    fn one_that_holds_nothing_goes_by_what_others_hold() {
        let limit = concurrency(20);
        limit.refused(&standing(20, 33));
        assert_eq!(limit.capacity(), 33);
        let held = limit.granted(&standing(40, 33));
        limit.refused(&standing(33, 70));
        assert_eq!(limit.capacity(), 33, "it has samples of its own");
        drop(held);
        limit.refused(&standing(33, 10_000));
        assert_eq!(limit.capacity(), 160, "within its range");
    }

    /// A file with another number made a limit that had nothing in flight: it took the gateway's own
    /// calls for those of others, and went by what they held.
    #[test]
    fn calls_of_before_a_change_of_the_file_are_its_own() {
        let old = concurrency(40);
        let held = old.granted(&standing(40, 33));
        let limit = |name: &str| Limit::concurrency(name, 20);
        let changed = concurrency_beside(&limit("running"), &[Arc::clone(&old)]);
        let another = concurrency_beside(&limit("streams"), &[old]);
        for limit in [&changed, &another] {
            limit.refused(&standing(20, 33));
        }
        assert_eq!((changed.capacity(), another.capacity()), (20, 33));
        drop(held);
        changed.refused(&standing(20, 33));
        assert_eq!(changed.capacity(), 33);
    }

    /// What happens next to a call.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    enum Next {
        Asks,
        Begins { id: u64, first: Span, rest: Span },
        Ends { id: u64 },
    }

    /// What came of gateways before an upstream.
    #[derive(Debug)]
    struct Came {
        limits: Vec<u64>,
        most_held: u64,
        refused: u64,
        answered: u64,
    }

    /// So many gateways on one store before an upstream that serves 16 at once at its pace and has no
    /// room for more than 64, with 100 callers that have a call all the time, for five minutes of
    /// virtual time. Answers are streams of any length.
    fn gateways(count: usize, start: u64) -> Came {
        let pace = Pace {
            first: Span::from_millis(200),
            gap: Span::from_millis(10),
        };
        let settings = Settings {
            pace,
            slots: 16,
            most_at_once: 64,
            output: 1..=200,
            ..Settings::of(Provider::OpenAi)
        };
        let begin = Timestamp::from_micros(1_800_057_600_000_000);
        let end = begin + Span::from_secs(300);
        let mut sim = Sim::new(settings, 7, begin);
        let body = br#"{"model":"m","stream":true}"#;
        let call = Call::read(Shape::Chat, "/v1/chat/completions", body, None).unwrap();
        let limit = Limit::concurrency("running", start);
        let by = ConcurrencyBy::default();
        let new = |_| Arc::new(Concurrency::new(("llm", ""), &limit, by, &[]));
        let gateways: Vec<Arc<Concurrency>> = (0..count).map(new).collect();
        let mut flying: Vec<Option<InFlight>> = (0..100).map(|_| None).collect();
        let asks = |caller: usize| Reverse((begin, caller, Next::Asks));
        let mut agenda: BinaryHeap<_> = (0..100).map(asks).collect();
        let (mut held, mut most_held, mut refused, mut answered) = (0, 0, 0, 0);
        while let Some(Reverse((now, caller, next))) = agenda.pop() {
            if now > end {
                break;
            }
            let gateway = &gateways[caller % count];
            let soon = now + Span::from_millis(20);
            match next {
                Next::Asks if held >= gateway.capacity() => {
                    gateway.refused(&standing(gateway.capacity(), held));
                    agenda.push(Reverse((soon, caller, Next::Asks)));
                }
                Next::Asks => {
                    held += 1;
                    let in_flight = gateway.granted(&standing(gateway.capacity(), held));
                    match sim.ask(now, "a", &call) {
                        Reply::Refusal(_) => {
                            refused += 1;
                            held -= 1;
                            in_flight.went(Went::Dropped(Duration::ZERO), now);
                            let later = now + Span::from_millis(500);
                            agenda.push(Reverse((later, caller, Next::Asks)));
                        }
                        Reply::Answer(answer, _) => {
                            flying[caller] = Some(in_flight);
                            let (id, first) = (answer.id, answer.pace.first);
                            let whole = answer.pace.whole(answer.tokens).max(first);
                            let rest = Span::from_micros(whole.as_micros() - first.as_micros());
                            let begins = Next::Begins { id, first, rest };
                            agenda.push(Reverse((now + first, caller, begins)));
                        }
                    }
                    most_held = most_held.max(held);
                }
                Next::Begins { id, first, rest } => {
                    let took = Went::Took(Measured::FirstToken, first.as_duration());
                    flying[caller].as_ref().unwrap().went(took, now);
                    agenda.push(Reverse((now + rest, caller, Next::Ends { id })));
                }
                Next::Ends { id } => {
                    sim.end(now, id, End::Whole);
                    flying[caller] = None;
                    held -= 1;
                    answered += 1;
                    agenda.push(Reverse((now, caller, Next::Asks)));
                }
            }
        }
        let limits = gateways.iter().map(|gateway| gateway.capacity());
        Came {
            limits: limits.collect(),
            most_held,
            refused,
            answered,
        }
    }

    /// The answers that 16 slots give in five minutes: each takes 200 ms and 100 tokens of 10 ms.
    const ANSWERS: u64 = 300 * 16 * 1_000 / 1_200;

    #[test]
    fn it_settles_near_the_knee_of_an_upstream_that_gets_slower() {
        for start in [4, 32, 60] {
            let came = gateways(1, start);
            println!("start {start}: {came:?} of {ANSWERS}");
            assert!((8..=48).contains(&came.limits[0]), "{came:?}");
            // It looks for the knee from far above it, too.
            assert!(came.answered * 10 >= ANSWERS * 7, "{came:?}");
            assert!(came.refused * 20 <= came.answered, "{came:?}");
        }
    }

    #[test]
    fn gateways_on_one_store_settle_near_the_knee_together() {
        for count in [2, 4] {
            let came = gateways(count, 32);
            println!("{count} gateways: {came:?} of {ANSWERS}");
            assert!(came.limits.iter().all(|limit| *limit <= 48), "{came:?}");
            assert!(came.most_held <= 64, "not what each may: {came:?}");
            assert!(came.answered * 10 >= ANSWERS * 8, "{came:?}");
            assert_eq!(came.refused, 0, "{came:?}");
        }
    }
}
