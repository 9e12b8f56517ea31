//! Interleavings of processes that wait for one slot, explored by shuttle at the queue itself:
//! each task is a process, with a wakeup slot of its own, and everything is in a segment.
//! Built only with `--cfg shuttle`.
//!
//! Two things are models here. A lock is waited for by letting others go on, and a sleeper is
//! one that lets others go on until its futex differs. What those two do when a process is
//! killed in the middle of a step is for `tests/kills.rs`; that a killed process is noticed
//! (by its pidfd) is for `tests/processes.rs`.

use std::sync::Arc;

use ::shuttle::thread;
use parking_lot::Mutex;
use tempfile::TempDir;
use tidegate_conformance::fixture::{plan, slots};
use tidegate_store::core::{Span, Timestamp};
use tidegate_store::optimistic::{Clock, KnownRevisions};
use tidegate_store::revisions::Revisions;
use tidegate_store::{Detail, Ending, KeyCommand, KeyPath, Plan, Reply, Terms, Verb};

use crate::at_hand::AtHand;
use crate::decide::Inner;
use crate::following::Following;
use crate::kept::Waiter;
use crate::keys::{RootKeys, kind};
use crate::layout::SMALLEST;
use crate::options::Options;
use crate::owed::Owed;
use crate::process::{self, Process};
use crate::queue::Turn;
use crate::registry;
use crate::root::{Root, place_bytes};
use crate::segment::{self, Segment};
use crate::shared::Shared;
use crate::steps::Steps;
use crate::waiters::LazyWaiters;
use crate::wakeup;

const SCHEDULES: usize = 500;
const NOW: Timestamp = Timestamp::from_micros(1_767_268_800_000_000);
const ROOT: &[u8] = b"k";

/// Who waits, by the order in which they came.
const WAITERS: u32 = 3;

/// The holder that they wait for.
const HOLDER: u32 = WAITERS;

/// A table of one slot.
struct Table {
    inner: Inner,
    plan: Arc<Plan>,
    served: Mutex<Vec<u32>>,
    _dir: TempDir,
}

impl Table {
    fn new() -> Arc<Self> {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let options = Options {
            dir: dir.path().to_owned(),
            size: SMALLEST,
            clock: Clock::Caller,
            ..Options::default()
        };
        let path = segment::path("t", &options).expect("a name");
        let segment = Segment::open(&path, &options).expect("it opens");
        let steps = Arc::new(Steps::new(segment, options.deadline));
        let (number, _) = registry::find(&steps, "t", true)
            .expect("room")
            .expect("it is made");
        let shared = Shared {
            path,
            clock: options.clock,
            leases_end_with_process: true,
            following: Arc::new(Following::new(&steps)),
            waiters: LazyWaiters::new(&steps),
            owed: Owed::new(&steps),
            steps,
        };
        let table = Self {
            inner: Inner {
                shared: Arc::new(shared),
                number,
                revisions: Revisions::default(),
                known: KnownRevisions::default(),
                writing: Mutex::new(()),
                at_hand: AtHand::default(),
            },
            plan: plan(0, 1, &[(0, slots(1))]),
            served: Mutex::default(),
            _dir: dir,
        };
        // Its limits are written before anybody is asked at once.
        assert!(table.takes(HOLDER, false));
        Arc::new(table)
    }

    fn command<'c>(&'c self, verb: Verb<'c>) -> KeyCommand<'c> {
        KeyCommand {
            plan: &self.plan,
            key: KeyPath::new(ROOT, 1).expect("a key"),
            now: NOW,
            calendars: &[],
            verb,
        }
    }

    /// Asks for the slot; whether it was given.
    fn takes(&self, who: u32, waits: bool) -> bool {
        let turn = Turn {
            id: who.into(),
            ahead: Span::ZERO,
            wakeup_slot: who,
            number: who,
        };
        let take = self.command(Verb::Take {
            amounts: &[1],
            lease: Some(Terms {
                id: who.into(),
                expires_at: NOW + Span::from_secs(3_600),
                idempotency: None,
                least: None,
            }),
            detail: Detail::Verdict,
        });
        let told = self.inner.decide(&take, waits.then_some(&turn));
        match told.expect("an answer").reply {
            Reply::Decision(decision) => decision.verdict.admitted(),
            other => panic!("{other:?}"),
        }
    }

    fn releases(&self, who: u32) {
        let release = self.command(Verb::End {
            id: who.into(),
            ending: Ending::Release,
            remember: false,
        });
        self.inner.execute(&release).expect("held");
    }

    /// As a process whose request has its place: sleeps, asks, holds the slot and gives it
    /// back.
    fn waits_in_turn(&self, who: u32) {
        while !self.takes(who, true) {
            self.sleeps(who);
        }
        self.served.lock().push(who);
        self.releases(who);
    }

    fn sleeps(&self, who: u32) {
        let (segment, mut is_woken) = (&self.inner.shared.steps.segment, false);
        loop {
            let seen = wakeup::take_marked(segment, who, |number| is_woken |= number == who);
            if is_woken {
                return;
            }
            wakeup::sleep(segment, who, seen);
        }
    }

    /// The place of `who` is that of a process which is there no more, and who watches it is
    /// told.
    fn is_killed(&self, who: u32) {
        let steps = &self.inner.shared.steps;
        let keys = RootKeys::new(steps.segment.seed(), self.inner.number, ROOT);
        let killed = Process {
            pid: i32::MAX.cast_unsigned(),
            ..process::me()
        };
        let step = steps.step(keys.shard, |txn| {
            let root = Root::load(txn, &keys)?;
            if let Some((place, waiter)) = root.place(txn, who.into())? {
                let place = keys.of(kind::PLACE, &place_bytes(place));
                let waiter = Waiter {
                    process: killed,
                    ..waiter
                };
                txn.put(keys.bucket, &place, &waiter.encode())?;
            }
            Ok(())
        });
        step.expect("room");
        for other in (0..WAITERS).filter(|other| *other != who) {
            wakeup::wake_request(&steps.segment, other, other);
        }
    }

    /// All have come in this order, and wait.
    fn all_come(&self) {
        for who in 0..WAITERS {
            assert!(!self.takes(who, true), "the slot is held");
        }
    }
}

fn explore(run: impl Fn() + Send + Sync + 'static) {
    ::shuttle::check_random(run, SCHEDULES);
}

fn all(tasks: Vec<thread::JoinHandle<()>>) {
    for task in tasks {
        task.join().expect("it ends");
    }
}

/// Whoever sleeps through its turn sleeps forever, and shuttle says so.
#[test]
fn shuttle_those_who_wait_are_woken_in_order_of_arrival() {
    explore(|| {
        let table = Table::new();
        table.all_come();
        let waits = |who| {
            let table = Arc::clone(&table);
            thread::spawn(move || table.waits_in_turn(who))
        };
        let tasks = (0..WAITERS).map(waits).collect();
        table.releases(HOLDER);
        all(tasks);
        assert_eq!(*table.served.lock(), [0, 1, 2]);
    });
}

/// They come while the slot is given back and taken.
#[test]
fn shuttle_no_wake_up_is_lost_by_those_who_come_meanwhile() {
    explore(|| {
        let table = Table::new();
        let waits = |who| {
            let table = Arc::clone(&table);
            thread::spawn(move || table.waits_in_turn(who))
        };
        let tasks = (0..WAITERS).map(waits).collect();
        table.releases(HOLDER);
        all(tasks);
        let mut served = table.served.lock().clone();
        served.sort_unstable();
        assert_eq!(served, [0, 1, 2]);
    });
}

/// It is killed before, while or after its turn comes, and never asks again.
#[test]
fn shuttle_the_place_of_one_that_is_killed_is_given_up() {
    explore(|| {
        let table = Table::new();
        table.all_come();
        let waits = |who| {
            let table = Arc::clone(&table);
            thread::spawn(move || table.waits_in_turn(who))
        };
        let mut tasks = vec![waits(0), waits(2)];
        let killer = Arc::clone(&table);
        tasks.push(thread::spawn(move || killer.is_killed(1)));
        table.releases(HOLDER);
        all(tasks);
        assert_eq!(*table.served.lock(), [0, 2]);
    });
}
