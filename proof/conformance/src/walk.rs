//! Random commands run on a store and on the model, compared at every step:
//! the same answers, the same standings, and exact instants.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::Store;
use tidegate::{Admission, Algorithm, Lease, Limit, LimitSet, ManualClock};

use crate::Subject;
use crate::model::{Model, Shape};

/// One step of a walk.
#[derive(Clone, Debug)]
enum Step {
    /// Request on a key for an amount of every rate.
    Request { key: usize, amount: u64 },
    /// Settle the nth live lease with a use.
    Settle { which: usize, used: u64 },
    /// Drop the nth live lease.
    Drop { which: usize },
    /// Let time pass, in microseconds.
    Pass { micros: u64 },
}

const KEYS: [&str; 3] = ["alice", "bob", "a key longer than twenty-two bytes"];
const TTL: u64 = 1_300;
const NAMES: [&str; 5] = ["bucket", "window", "ring", "log", "slots"];

/// Nobody looks more often for what was given back.
const MOST_LOOKS: usize = 10_000;

/// Numbers small enough that every boundary is met often.
#[derive(Clone, Debug)]
struct Numbers {
    capacity: [u64; 5],
    amount: u64,
    period: u64,
}

/// A live lease and what it took of each limit.
struct Held {
    lease: Lease,
    key: usize,
    number: usize,
    taken: [u64; 5],
    at: i64,
}

/// Walks a store beside the model: as many walks as `PROPTEST_CASES` says.
///
/// # Panics
/// With the shortest walk found on which the two differ.
pub fn agrees_with_the_model(subject: &Subject) {
    if let Err(reason) = subject.needs_the_callers_clock() {
        println!("skipped the walk beside the model: {reason}");
        return;
    }
    let config = Config::default();
    let config = Config {
        failure_persistence: None,
        cases: subject.walks(config.cases),
        ..config
    };
    let walk = (numbers(), prop::collection::vec(step(), 1..60));
    let outcome = TestRunner::new(config).run(&walk, |(numbers, steps)| {
        Walk::start(&numbers, subject.fresh()).run(&steps);
        Ok(())
    });
    if let Err(difference) = outcome {
        panic!("store and model differ: {difference}");
    }
}

fn numbers() -> impl Strategy<Value = Numbers> {
    (
        prop::array::uniform5(1_u64..12),
        1_u64..12,
        1_000_u64..3_000,
    )
        .prop_map(|(capacity, amount, period)| Numbers {
            capacity,
            amount,
            period,
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..KEYS.len(), 1_u64..6).prop_map(|(key, amount)| Step::Request { key, amount }),
        2 => (any::<usize>(), 0_u64..8).prop_map(|(which, used)| Step::Settle { which, used }),
        1 => any::<usize>().prop_map(|which| Step::Drop { which }),
        3 => (0_u64..900).prop_map(|micros| Step::Pass { micros }),
    ]
}

struct Walk {
    time: ManualClock,
    set: LimitSet,
    capacity: [u64; 5],
    models: Vec<[Model; 5]>,
    held: Vec<Held>,
    leases: usize,
}

impl Walk {
    fn start(numbers: &Numbers, store: Arc<dyn Store>) -> Self {
        let time = ManualClock::default();
        let set = LimitSet::builder()
            .limits(limits(numbers))
            .clock(time.clock())
            .store(store)
            .build()
            .expect("sensible limits");
        let models = KEYS.iter().map(|_| models(numbers)).collect();
        Self {
            time,
            set,
            capacity: numbers.capacity,
            models,
            held: Vec::new(),
            leases: 0,
        }
    }

    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Request { key, amount } => self.ask(key, amount),
                Step::Settle { which, used } => self.settle(which, Some(used)),
                Step::Drop { which } => self.settle(which, None),
                Step::Pass { micros } => self.time.advance(Duration::from_micros(micros)),
            }
            self.compare();
        }
    }

    fn now(&self) -> i64 {
        self.time.clock().now().as_micros()
    }

    fn ask(&mut self, key: usize, amount: u64) {
        let now = self.now();
        let taken = [amount, amount, amount, amount, 1];
        let fits = (0..5).all(|limit| self.models[key][limit].fits(taken[limit], now));
        let oversized = (0..5).any(|limit| taken[limit] > self.capacity[limit]);
        match self.set.try_acquire(KEYS[key], amount).wait() {
            Err(error) => panic!("{error}"),
            Ok(Admission::Refused(decision)) if decision.is_never() => assert!(oversized),
            Ok(Admission::Refused(decision)) => {
                assert!(!fits && !oversized, "refused by {:?}", decision.binding());
                self.check_instant(
                    key,
                    taken,
                    decision.not_until().expect("not now").as_micros(),
                );
            }
            Ok(Admission::Granted(lease)) => {
                assert!(fits);
                self.hold(lease, key, taken, now);
            }
        }
    }

    /// Admitted at the instant reported, and refused a microsecond before.
    fn check_instant(&self, key: usize, taken: [u64; 5], instant: i64) {
        let fits = |at: i64| (0..5).all(|limit| self.models[key][limit].fits(taken[limit], at));
        assert!(fits(instant), "not admitted at the instant reported");
        assert!(!fits(instant - 1), "admitted before the instant reported");
    }

    fn hold(&mut self, lease: Lease, key: usize, taken: [u64; 5], now: i64) {
        let number = self.leases;
        self.leases += 1;
        for (model, amount) in self.models[key].iter_mut().zip(taken) {
            model.charge(amount, now, number, now + TTL as i64);
        }
        self.held.push(Held {
            lease,
            key,
            number,
            taken,
            at: now,
        });
    }

    fn settle(&mut self, which: usize, used: Option<u64>) {
        if self.held.is_empty() {
            return;
        }
        let mut held = self.held.swap_remove(which % self.held.len());
        let now = self.now();
        if let Some(used) = used {
            let names = NAMES[..4].iter().map(|name| (*name, used));
            let settlement = held
                .lease
                .settle(&names.collect::<Vec<_>>())
                .wait()
                .expect("live");
            assert_eq!(settlement.expired(), held.at + TTL as i64 <= now);
        }
        for (limit, model) in self.models[held.key].iter_mut().enumerate() {
            let taken = held.taken[limit];
            model.settle(held.number, taken, used.unwrap_or(taken), now);
        }
        match used {
            Some(_) => {}
            // Its slots are back already: nothing would show when the store hears of it,
            // which then would be later than what is asked next, by a clock that is not.
            None if held.at + TTL as i64 <= now => {
                held.lease.release().wait().expect("it is remembered");
            }
            None => {
                drop(held.lease);
                self.await_the_slots(held.key);
            }
        }
    }

    /// A store beyond a network hears a moment later of a lease that is dropped.
    fn await_the_slots(&self, key: usize) {
        let [.., slots] = &self.models[key];
        let free = slots.remaining(self.now());
        for _ in 0..MOST_LOOKS {
            let peeked = self
                .set
                .peek(KEYS[key], &[("slots", 1)])
                .wait()
                .expect("a peek");
            if peeked.standing("slots").expect("a standing").remaining == free {
                return;
            }
        }
    }

    fn compare(&self) {
        let now = self.now();
        for (key, models) in KEYS.iter().zip(&self.models) {
            let peeked = self.set.peek(*key, &[("slots", 1)]).wait().expect("a peek");
            for (name, model) in NAMES.iter().zip(models) {
                let standing = peeked.standing(name).expect("a standing");
                assert_eq!(standing.remaining, model.remaining(now), "{name} of {key}");
            }
        }
    }
}

fn limits(numbers: &Numbers) -> Vec<Limit> {
    let [bucket, window, ring, log, slots] = numbers.capacity;
    let period = Duration::from_micros(numbers.period);
    vec![
        Limit::rate("bucket", numbers.amount, period).burst(bucket),
        Limit::budget("window", window, period),
        Limit::rate("ring", ring, Duration::from_millis(1))
            .algorithm(Algorithm::SlidingWindow)
            .sub_windows(4),
        Limit::rate("log", log, period).algorithm(Algorithm::SlidingLog),
        Limit::concurrency("slots", slots).ttl(Duration::from_micros(TTL)),
    ]
}

fn models(numbers: &Numbers) -> [Model; 5] {
    let [bucket, window, ring, log, slots] = numbers.capacity;
    let period = i128::from(numbers.period);
    let amount = i128::from(numbers.amount);
    let shapes = [
        (Shape::Bucket { amount, period }, bucket),
        (Shape::Window { period }, window),
        (
            Shape::Ring {
                step: 250,
                steps: 4,
            },
            ring,
        ),
        (Shape::Log { window: period }, log),
        (Shape::Slots, slots),
    ];
    shapes.map(|(shape, capacity)| Model::new(shape, capacity))
}
