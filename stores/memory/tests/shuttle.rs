//! Interleavings of one row, explored by shuttle: handles swap its word without
//! a lock while commands of the table take it out under one. Built only with
//! `--cfg shuttle` (`cargo xtask test` does).
#![cfg(shuttle)]

use std::sync::Arc;

use shuttle::thread;
use tidegate_memory::MemoryStore;
use tidegate_store::core::{Amount, Bucket, Payment, Rule, Span, Timestamp};
use tidegate_store::{
    Answer, AtomicBucket, Command, Detail, KeyCommand, KeyPath, Op, Plan, PlanLimit, Reply, Store,
    StoreError, Table, Verb,
};

const SCHEDULES: usize = 2_000;
const KEY: &[u8] = b"k";
const NOW: Timestamp = Timestamp::from_micros(1_767_268_800_000_000);

/// One bucket of `burst` units that refills too slowly to matter.
fn plan(version: u64, burst: Amount) -> Arc<Plan> {
    let bucket = Bucket::new(1, Span::from_secs(86_400), burst).expect("a sensible bucket");
    let limit = PlanLimit {
        name: "r".into(),
        uid: 0,
        rule: Rule::Bucket(bucket),
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    };
    Arc::new(Plan::new(version, 1, vec![limit], Span::SECOND))
}

/// A table, and the plans it is given, oldest first.
#[derive(Clone)]
struct Row {
    table: Arc<dyn Table>,
    plans: Vec<Arc<Plan>>,
}

impl Row {
    fn new(bursts: &[Amount]) -> Self {
        let plans: Vec<_> = (0..)
            .zip(bursts)
            .map(|(v, &burst)| plan(v, burst))
            .collect();
        let table = MemoryStore::default().open("t", &plans[0]);
        Self {
            table: table.expect("a table"),
            plans,
        }
    }

    fn pin(&self) -> Arc<AtomicBucket> {
        let buckets = self
            .table
            .atomic_buckets()
            .expect("memory has atomic buckets");
        let bucket = buckets.pin(&self.plans[0], KEY, NOW);
        bucket.expect("a single bucket is pinned")
    }

    /// As a handle asks: its atomic bucket, or else the table, by the oldest plan that
    /// is not stale.
    fn admit(&self, bucket: &AtomicBucket) -> bool {
        if let Ok(verdict) = bucket.admit(1, NOW) {
            return verdict.admitted();
        }
        let take = Verb::Take {
            amounts: &[1],
            lease: None,
            detail: Detail::Verdict,
        };
        let answers = self.plans.iter().map(|plan| self.ask(plan, take));
        let mut current = answers.filter(|answer| *answer != Err(StoreError::StalePlan));
        let verdict = current.next().expect("the newest plan is never stale");
        let reply = verdict.expect("there is room");
        reply.verdict().expect("a verdict").admitted()
    }

    /// `askers` threads with `asks` each, by one atomic bucket; joined, they say how
    /// many were admitted.
    fn start(&self, askers: usize, asks: usize) -> Vec<thread::JoinHandle<Amount>> {
        let bucket = self.pin();
        let start = |_| {
            let (row, bucket) = (self.clone(), Arc::clone(&bucket));
            thread::spawn(move || (0..asks).filter(|_| row.admit(&bucket)).count() as Amount)
        };
        (0..askers).map(start).collect()
    }

    fn execute(&self, plan: &Arc<Plan>, verb: Verb<'_>) -> Reply {
        self.ask(plan, verb).expect("no error")
    }

    fn ask(&self, plan: &Arc<Plan>, verb: Verb<'_>) -> Answer {
        let command = KeyCommand {
            plan,
            key: KeyPath::new(KEY, 1).expect("a key"),
            now: NOW,
            calendars: &[],
            verb,
        };
        self.table.execute_and_wait(&command.into())
    }

    fn adopt(&self, plan: &Arc<Plan>) {
        let command = Command {
            plan,
            now: NOW,
            calendars: &[],
            op: Op::Adopt,
            patience: None,
        };
        self.table.execute_and_wait(&command).expect("no error");
    }

    /// What is left by `plan`.
    fn remaining(&self, plan: &Arc<Plan>) -> Amount {
        let Reply::Decision(decision) = self.execute(plan, Verb::Peek { amounts: &[1] }) else {
            panic!("a peek is answered by a decision");
        };
        decision.standings[0].expect("a standing").remaining
    }
}

fn sum(askers: Vec<thread::JoinHandle<Amount>>) -> Amount {
    let join = |asker: thread::JoinHandle<Amount>| asker.join().expect("no panic");
    askers.into_iter().map(join).sum()
}

/// One reset makes room for the capacity once more, and for nothing beside.
#[test]
fn shuttle_handles_beside_a_reset_admit_at_most_the_capacity_each_time() {
    let run = || {
        let row = Row::new(&[2]);
        let askers = row.start(2, 3);
        row.execute(&row.plans[0], Verb::Reset);
        let admitted = sum(askers);
        let remaining = row.remaining(&row.plans[0]);
        assert!((2..=4).contains(&admitted), "{admitted}");
        assert!(
            (2..=4).contains(&(admitted + remaining)),
            "{admitted} and {remaining}"
        );
    };
    shuttle::check_random(run, SCHEDULES);
}

/// However often the table takes the word out, nothing is taken twice or lost.
#[test]
fn shuttle_handles_beside_commands_admit_exactly_the_capacity() {
    let run = || {
        let row = Row::new(&[4]);
        let askers = row.start(2, 2);
        let debit = Verb::Debit { amounts: &[1] };
        row.execute(&row.plans[0], debit);
        row.remaining(&row.plans[0]);
        let admitted = sum(askers);
        assert!((3..=4).contains(&admitted), "{admitted}");
        assert_eq!(row.remaining(&row.plans[0]), 0);
    };
    shuttle::check_random(run, SCHEDULES);
}

/// What was admitted by the old plan counts in the new one, raised or lowered.
#[test]
fn shuttle_handles_beside_a_change_of_plan_admit_at_most_the_larger_capacity() {
    for bursts in [[2, 3], [3, 2]] {
        let run = move || {
            let row = Row::new(&bursts);
            let askers = row.start(2, 2);
            row.adopt(&row.plans[1]);
            let admitted = sum(askers);
            assert!(admitted <= 3, "{admitted} of {bursts:?}");
            let remaining = row.remaining(&row.plans[1]);
            assert_eq!(remaining, bursts[1].saturating_sub(admitted));
        };
        shuttle::check_random(run, SCHEDULES);
    }
}
