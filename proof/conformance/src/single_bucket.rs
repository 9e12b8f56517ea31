//! Random commands on a set of one bucket and on the model, compared at every
//! step: by key, by handles that come and go, and by leases. A store may keep
//! such a set otherwise than every other, and a key in more than one way.

use std::sync::Arc;

use crate::Subject;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::Store;
use tidegate::{Admission, DecisionError, Handle, Lease, Limit, LimitSet, ManualClock, Verdict};

use crate::model::{Model, Shape};

/// One step of a walk over one of two keys.
#[derive(Clone, Debug)]
enum Step {
    /// Request for an amount for good, by key.
    Admit(u64),
    /// Request for an amount for good, by handle.
    ByHandle(u64),
    /// Make a handle for the key, or drop the one there is.
    Handle,
    /// Request for a lease.
    Acquire(u64),
    /// Settle the nth live lease with a use.
    Settle(usize, u64),
    /// Charge what was used without asking.
    Debit(u64),
    /// Let time pass, in microseconds.
    Pass(u64),
}

/// A live lease, its number in the model, and what it took.
struct Held {
    lease: Lease,
    number: usize,
    taken: u64,
}

/// One key, and what is held of it.
struct Key {
    name: &'static str,
    model: Model,
    handle: Option<Handle>,
    held: Vec<Held>,
}

struct Walk {
    time: ManualClock,
    set: LimitSet,
    burst: u64,
    leases: usize,
}

/// Walks a store beside the model: as many walks as `PROPTEST_CASES` says.
///
/// # Panics
/// With the shortest walk found on which the two differ.
pub fn agrees_with_the_model(subject: &Subject) {
    if let Err(reason) = subject.needs_the_callers_clock() {
        println!("skipped the walk of a single bucket: {reason}");
        return;
    }
    let config = Config::default();
    let config = Config {
        failure_persistence: None,
        cases: subject.walks(config.cases),
        ..config
    };
    let rate = (1_u64..12, 1_000_u64..3_000, 1_u64..12);
    let steps = prop::collection::vec((any::<bool>(), step()), 1..60);
    let outcome = TestRunner::new(config).run(&(rate, steps), |(rate, steps)| {
        walk(rate, &steps, subject.fresh());
        Ok(())
    });
    if let Err(difference) = outcome {
        panic!("store and model differ: {difference}");
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1_u64..6).prop_map(Step::Admit),
        2 => (1_u64..6).prop_map(Step::ByHandle),
        1 => Just(Step::Handle),
        3 => (1_u64..12).prop_map(Step::Acquire),
        3 => (any::<usize>(), 0_u64..14).prop_map(|(which, used)| Step::Settle(which, used)),
        1 => (1_u64..9).prop_map(Step::Debit),
        4 => (0_u64..900).prop_map(Step::Pass),
    ]
}

fn walk((amount, period, burst): (u64, u64, u64), steps: &[(bool, Step)], store: Arc<dyn Store>) {
    let time = ManualClock::default();
    let limit = Limit::rate("r", amount, Duration::from_micros(period)).burst(burst);
    let builder = LimitSet::builder().limit(limit).clock(time.clock());
    let set = builder.store(store).build().expect("a sensible limit");
    let leases = 0;
    let mut walk = Walk {
        time,
        set,
        burst,
        leases,
    };
    let (amount, period) = (i128::from(amount), i128::from(period));
    let shape = Shape::Bucket { amount, period };
    let key = |name| Key::new(name, Model::new(shape.clone(), burst));
    let mut keys = ["alice", "bob"].map(key);
    for (second, step) in steps {
        walk.step(&mut keys[usize::from(*second)], step);
        keys.iter().for_each(|key| walk.compare(key));
    }
}

impl Key {
    const fn new(name: &'static str, model: Model) -> Self {
        Self {
            name,
            model,
            handle: None,
            held: Vec::new(),
        }
    }
}

impl Walk {
    fn now(&self) -> i64 {
        self.time.clock().now().as_micros()
    }

    fn step(&mut self, key: &mut Key, step: &Step) {
        match *step {
            Step::Admit(amount) => self.take(key, amount, self.set.admit(key.name, amount).wait()),
            Step::ByHandle(amount) => {
                if let Some(handle) = &key.handle {
                    let verdict = handle.admit(amount);
                    self.take(key, amount, verdict.wait());
                }
            }
            Step::Handle if key.handle.is_some() => key.handle = None,
            Step::Handle => key.handle = Some(self.set.handle(key.name).expect("a key")),
            Step::Acquire(amount) => self.acquire(key, amount),
            Step::Settle(which, used) => self.settle(key, which, used),
            Step::Debit(amount) => {
                self.set.debit(key.name, amount).wait().expect("a debit");
                self.charge(key, amount);
            }
            Step::Pass(micros) => self.time.advance(Duration::from_micros(micros)),
        }
    }

    /// Charges the model; answers the number of what was charged.
    fn charge(&mut self, key: &mut Key, amount: u64) -> usize {
        self.leases += 1;
        key.model.charge(amount, self.now(), self.leases, 0);
        self.leases
    }

    fn take(&mut self, key: &mut Key, amount: u64, verdict: Result<Verdict, DecisionError>) {
        let fits = |at: i64| key.model.fits(amount, at);
        match verdict {
            Ok(Verdict::Never) => assert!(amount > self.burst),
            Ok(Verdict::NotUntil(at)) => {
                assert!(fits(at.as_micros()) && !fits(at.as_micros() - 1));
            }
            Ok(Verdict::Admit) => {
                assert!(fits(self.now()));
                self.charge(key, amount);
            }
            other => panic!("{other:?}"),
        }
    }

    fn acquire(&mut self, key: &mut Key, taken: u64) {
        match self.set.try_acquire(key.name, taken).wait() {
            Err(error) => panic!("{error}"),
            Ok(Admission::Refused(decision)) => {
                assert!(!key.model.fits(taken, self.now()));
                assert_eq!(decision.is_never(), taken > self.burst);
            }
            Ok(Admission::Granted(lease)) => {
                assert!(key.model.fits(taken, self.now()));
                let number = self.charge(key, taken);
                key.held.push(Held {
                    lease,
                    number,
                    taken,
                });
            }
        }
    }

    fn settle(&self, key: &mut Key, which: usize, used: u64) {
        if key.held.is_empty() {
            return;
        }
        let mut held = key.held.swap_remove(which % key.held.len());
        held.lease.settle(&[("r", used)]).wait().expect("live");
        key.model.settle(held.number, held.taken, used, self.now());
    }

    fn compare(&self, key: &Key) {
        let peeked = self.set.peek(key.name, 1).wait().expect("a peek");
        let standing = peeked.standing("r").expect("a standing");
        let expected = key.model.remaining(self.now());
        assert_eq!(standing.remaining, expected, "{}", key.name);
    }
}
