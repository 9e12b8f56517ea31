//! A thread that is held up between its look at the clock and the lock of its key: others
//! are decided meanwhile, as of later instants. A limit took its older instant for a clock
//! that was set back, went on from there, and so had all of it to give again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate::{Algorithm, Limit, LimitSet, ManualClock, Period, Span, Timestamp};
use tidegate_memory::MemoryStore;
use tidegate_store::{
    Abilities, Command, Execution, Op, Out, Plan, Store, StoreError, Table, TableBounds, Verb,
};

const SECOND: Duration = Duration::from_secs(1);

/// Holds up one take before a table, and lets the others by.
struct Slow {
    is_next: AtomicBool,
    arrived: SyncSender<()>,
    released: Mutex<Receiver<()>>,
}

struct SlowStore(MemoryStore, Arc<Slow>);

struct SlowTable(Arc<dyn Table>, Arc<Slow>);

impl Store for SlowStore {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        self.open_within(name, plan, &TableBounds::default())
    }

    fn open_within(
        &self,
        name: &str,
        plan: &Arc<Plan>,
        bounds: &TableBounds,
    ) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.0.open_within(name, plan, bounds)?;
        Ok(Arc::new(SlowTable(table, Arc::clone(&self.1))))
    }
}

impl Table for SlowTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let is_take = matches!(command.op, Op::One(_, Verb::Take { .. }));
        if is_take && self.1.is_next.swap(false, Ordering::SeqCst) {
            self.1.arrived.send(()).expect("somebody waits for it");
            let released = self.1.released.lock().expect("it is held once");
            released.recv().expect("it is released");
        }
        self.0.execute(command, out)
    }
}

/// How many of 30 asks are admitted before a thread that was held up for so long is
/// decided, whether it is, and how many of 30 after it, all at one instant.
fn admitted(limits: &[Limit], held_up: Duration) -> (usize, bool, usize) {
    admitted_by(&ManualClock::default(), limits, held_up)
}

/// The same, from where this clock stands.
fn admitted_by(time: &ManualClock, limits: &[Limit], held_up: Duration) -> (usize, bool, usize) {
    let (arrived, arrives) = sync_channel(1);
    let (release, released) = sync_channel(1);
    let slow = Arc::new(Slow {
        is_next: AtomicBool::new(true),
        arrived,
        released: Mutex::new(released),
    });
    let store = SlowStore(MemoryStore::default(), slow);
    let set = LimitSet::builder()
        .limits(limits.to_vec())
        .clock(time.clock())
        .store(Arc::new(store));
    let set = set.build().expect("sound limits");
    let theirs = set.clone();
    let held = thread::spawn(move || theirs.check("k", 1).wait().expect("an answer").admitted());
    arrives.recv().expect("it asks");
    time.advance(held_up);
    let asks = || {
        let answers = (0..30).map(|_| set.check("k", 1).wait().expect("an answer"));
        answers.filter(|decision| decision.admitted()).count()
    };
    let before = asks();
    release.send(()).expect("it waits");
    let held = held.join().expect("no panic");
    (before, held, asks())
}

#[test]
fn a_thread_that_is_held_up_does_not_give_a_limit_out_twice() {
    let rate = |algorithm| Limit::rate("tokens", 10, SECOND).algorithm(algorithm);
    let algorithms = [
        Algorithm::TokenBucket,
        Algorithm::FixedWindow,
        Algorithm::FirstUseWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ];
    for algorithm in algorithms {
        let others = [
            Vec::new(),
            vec![Limit::calls("calls", 1_000, SECOND)],
            vec![Limit::budget("day", 1_000, Period::day("UTC"))],
        ];
        for other in others {
            let limits = [vec![rate(algorithm)], other].concat();
            for seconds in [1, 2, 5] {
                let held_up = SECOND * seconds + SECOND / 2;
                let admitted = admitted(&limits, held_up);
                assert_eq!(admitted, (10, false, 0), "{limits:?}, {held_up:?}");
            }
        }
    }
}

/// There was room for it at the instant that its key was decided as of.
#[test]
fn a_thread_that_is_held_up_is_admitted_by_what_is_there_when_it_comes() {
    let lone = [Limit::rate("tokens", 40, SECOND * 40)];
    assert_eq!(admitted(&lone, SECOND * 20), (30, true, 9));
    let pair = [lone[0].clone(), Limit::calls("calls", 1_000, SECOND)];
    assert_eq!(admitted(&pair, SECOND * 20), (30, true, 9));
}

/// The windows of a day come with the command of one that was held up since before
/// midnight: they say of the next day, too, when that ends.
#[test]
fn a_thread_that_is_held_up_over_midnight_does_not_give_a_limit_out_twice() {
    let midnight = Timestamp::from_micros(1_767_312_000_000_000);
    let limits = [
        Limit::rate("tokens", 10, SECOND),
        Limit::budget("day", 1_000, Period::day("UTC")),
    ];
    for seconds in [2, 5] {
        let time = ManualClock::starting_at(midnight - Span::SECOND);
        let held_up = SECOND * seconds + SECOND / 2;
        assert_eq!(admitted_by(&time, &limits, held_up), (10, false, 0));
    }
}
