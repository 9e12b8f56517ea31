//! Requests that wait, or are about to, while the limits change.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tidegate::{Admission, DecisionError, Lease, Limit, LimitSet, ManualClock};
use tidegate_memory::MemoryStore;
use tidegate_store::{
    Abilities, Command, Execution, Op, Out, Plan, Store, StoreError, Table, TableBounds, Verb,
};

const SECOND: Duration = Duration::from_secs(1);

fn taken(set: &LimitSet, key: &str) -> Option<Lease> {
    let admission = set.try_acquire(key, ()).wait();
    admission.expect("an answer").granted()
}

fn poll<F>(waiting: Pin<&mut F>) -> Option<Result<Admission, DecisionError>>
where
    F: Future<Output = Result<Admission, DecisionError>>,
{
    match waiting.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(told) => Some(told),
        Poll::Pending => None,
    }
}

/// Holds up requests that wait: before the table (a request asks), or after it (it is in
/// the queue, and has not been told so).
struct Slow {
    at: Stop,
    is_next: AtomicBool,
    arrived: SyncSender<()>,
    released: Mutex<Receiver<()>>,
}

#[derive(PartialEq)]
enum Stop {
    Before,
    After,
}

impl Slow {
    fn stop(&self, at: &Stop, command: &Command<'_>) {
        let is_take = matches!(command.op, Op::One(_, Verb::Take { .. }));
        let waits = is_take && command.patience.is_some();
        if waits && *at == self.at && self.is_next.swap(false, Ordering::SeqCst) {
            self.arrived.send(()).expect("somebody waits for it");
            let released = self.released.lock().expect("it is held once");
            released.recv().expect("it is released");
        }
    }
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
        self.1.stop(&Stop::Before, command);
        let execution = self.0.execute(command, out);
        self.1.stop(&Stop::After, command);
        execution
    }
}

/// A set with one adaptive slot, in whose queue one may wait; who is held up there next,
/// and how it goes on.
struct Setting {
    set: LimitSet,
    slow: Arc<Slow>,
    arrives: Receiver<()>,
    release: SyncSender<()>,
}

impl Setting {
    fn new(at: Stop) -> Self {
        let (arrived, arrives) = sync_channel(1);
        let (release, released) = sync_channel(1);
        let slow = Arc::new(Slow {
            at,
            is_next: AtomicBool::new(false),
            arrived,
            released: Mutex::new(released),
        });
        let set = LimitSet::builder()
            .limit(Limit::concurrency("slots", 1).adaptive())
            .clock(ManualClock::default().clock())
            .max_waiting(1)
            .store(Arc::new(SlowStore(
                MemoryStore::default(),
                Arc::clone(&slow),
            )));
        Self {
            set: set.build().expect("a sound limit"),
            slow,
            arrives,
            release,
        }
    }

    /// Runs `step` while whatever `request` asks next is held up.
    fn meanwhile<T: Send>(&self, request: impl FnOnce() -> T + Send, step: impl FnOnce()) -> T {
        self.slow.is_next.store(true, Ordering::SeqCst);
        thread::scope(|scope| {
            let held_up = scope.spawn(request);
            self.arrives.recv().expect("it asks");
            step();
            self.release.send(()).expect("it is held up");
            held_up.join().expect("no panic")
        })
    }
}

/// Nobody waited yet as far as the set knew, so nobody was told to ask again; and it
/// waited until the slot came back, though there was a second one.
#[test]
fn a_request_that_begins_to_wait_while_the_capacity_changes_goes_by_the_new_one() {
    let setting = Setting::new(Stop::After);
    let set = &setting.set;
    let _held = taken(set, "k").expect("it is free");
    let request = || {
        let admission = set.acquire("k", ()).wait_within(5 * SECOND);
        admission.and_then(|admission| admission.expect("an answer").granted())
    };
    let granted = setting.meanwhile(request, || {
        set.set_capacity("slots", 2).expect("an adaptive limit");
    });
    assert!(granted.is_some());
}

/// Its place among those who may wait was anybody's while it asked again.
#[test]
fn a_request_that_waits_is_not_turned_away_because_the_capacity_changes() {
    let setting = Setting::new(Stop::Before);
    let set = &setting.set;
    let held = taken(set, "k").expect("it is free");
    let (mut first, mut second) = (pin!(set.acquire("k", ())), pin!(set.acquire("k", ())));
    assert!(poll(first.as_mut()).is_none(), "it waits");
    set.set_capacity("slots", 1).expect("an adaptive limit");
    let mut told = None;
    let first_told = setting.meanwhile(
        || poll(first.as_mut()).map(|told| told.map(drop)),
        || told = poll(second.as_mut()),
    );
    assert!(first_told.is_none(), "it waits on: {first_told:?}");
    assert!(matches!(told, Some(Err(DecisionError::QueueFull(1)))));
    drop(held);
    let granted = poll(first.as_mut()).expect("its turn").expect("an answer");
    assert!(granted.granted().is_some());
}

/// Everyone who waits is told that the server closes, this one not: it waited on.
#[test]
fn a_request_that_begins_to_wait_while_all_are_stopped_is_stopped_too() {
    let setting = Setting::new(Stop::After);
    let set = &setting.set;
    let _held = taken(set, "k").expect("it is free");
    let request = || set.acquire("k", ()).wait_within(5 * SECOND);
    let told = setting.meanwhile(request, || set.stop_waiting());
    assert!(matches!(told, Some(Err(DecisionError::Stopped))));
}
