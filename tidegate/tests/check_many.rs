//! Many keys are asked for in one command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate::{Decision, DecisionError, Limit, LimitSet, ManualClock};
use tidegate_memory::MemoryStore;
use tidegate_store::{
    Abilities, Command, Execution, Op, Out, Plan, Reply, Store, StoreError, Table,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// The memory store, in which the limits change in the middle of the first batch: its
/// first item alone is decided by those it was made for.
#[derive(Default)]
struct Changing(MemoryStore);

struct ChangingTable(Arc<dyn Table>, AtomicBool);

impl Store for Changing {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.0.open(name, plan)?;
        Ok(Arc::new(ChangingTable(table, AtomicBool::new(true))))
    }
}

impl Table for ChangingTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let Op::Batch(items) = command.op else {
            return self.0.execute(command, out);
        };
        if !self.1.swap(false, Ordering::SeqCst) {
            return self.0.execute(command, out);
        }
        let op = Op::Batch(&items[..1]);
        let Ok(Reply::Batch(mut answers)) = self.0.execute_and_wait(&Command { op, ..*command })
        else {
            panic!("a batch is answered by a batch");
        };
        answers.resize(items.len(), Err(StoreError::StalePlan));
        out.ready(Ok(Reply::Batch(answers)))
    }
}

fn set(store: impl Store, time: &ManualClock) -> LimitSet {
    let builder = LimitSet::builder().limit(Limit::budget("b", 10, HOUR));
    let builder = builder.store(Arc::new(store)).clock(time.clock());
    builder.build().expect("a sound limit")
}

fn remaining(set: &LimitSet, key: &str) -> u64 {
    let peeked = set.peek(key, 1).wait().expect("an answer");
    peeked.standing("b").expect("a standing").remaining
}

fn admitted(set: &LimitSet, keys: &[&str], amount: u64) -> Vec<bool> {
    let answers = set.check_many(keys.iter().map(|key| (*key, amount))).wait();
    let answers = answers.expect("sound asks").into_iter();
    answers
        .map(|one| one.as_ref().is_ok_and(Decision::admitted))
        .collect()
}

#[test]
fn each_is_decided_by_itself_and_in_order() {
    let set = set(MemoryStore::default(), &ManualClock::default());
    assert_eq!(admitted(&set, &["a", "b", "a"], 6), [true, true, false]);
    assert_eq!((remaining(&set, "a"), remaining(&set, "b")), (4, 4));
    let answers = set
        .check_many([("a", 1), ("", 1), ("b", 3), ("b", 2)])
        .wait();
    let answers = answers.expect("an answer to each");
    let told = |one: &Result<Decision, DecisionError>| one.as_ref().map(Decision::admitted).ok();
    let told: Vec<_> = answers.iter().map(told).collect();
    assert_eq!(told, [Some(true), None, Some(true), Some(false)]);
    assert_eq!((remaining(&set, "a"), remaining(&set, "b")), (3, 1));
}

/// All of them were asked again: what was decided already was charged twice.
#[test]
fn those_that_the_limits_change_under_are_asked_again_and_no_other() {
    let set = set(Changing::default(), &ManualClock::default());
    assert_eq!(admitted(&set, &["a", "b", "c"], 1), [true; 3]);
    let left = ["a", "b", "c"].map(|key| remaining(&set, key));
    assert_eq!(left, [9; 3]);
}

/// The memory store, which counts its commands.
#[derive(Default)]
struct Counting(MemoryStore, Arc<AtomicUsize>);

struct CountingTable(Arc<dyn Table>, Arc<AtomicUsize>);

impl Store for Counting {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.0.open(name, plan)?;
        Ok(Arc::new(CountingTable(table, Arc::clone(&self.1))))
    }
}

impl Table for CountingTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.execute(command, out)
    }
}

/// One limit after the other was looked at, by a trip each and at an instant each.
#[test]
fn a_forecast_looks_at_all_limits_by_one_command() {
    let store = Counting::default();
    let commands = Arc::clone(&store.1);
    let limits = ["a", "b", "c"].map(|name| Limit::budget(name, 10, HOUR));
    let builder = LimitSet::builder().limits(limits).store(Arc::new(store));
    let set = builder.build().expect("sound limits");
    assert!(
        set.check("k", &[("b", 4)])
            .wait()
            .expect("an answer")
            .admitted()
    );
    let before = commands.load(Ordering::SeqCst);
    let amounts = [("a", 3), ("b", 7), ("c", 0)];
    let told = set.forecast("k", &amounts).wait().expect("an answer");
    assert_eq!(commands.load(Ordering::SeqCst), before + 1);
    let told: Vec<_> = told
        .iter()
        .map(|(name, one)| (&**name, one.spendable, one.verdict.admitted()))
        .collect();
    assert_eq!(told, [("a", 3, true), ("b", 0, false)]);
}

#[test]
fn a_forecast_is_made_again_if_the_limits_change_meanwhile() {
    let set = set(Changing::default(), &ManualClock::default());
    let told = set.forecast("a", 3).wait().expect("an answer");
    assert_eq!((told.len(), told[0].1.spendable), (1, 3));
}
