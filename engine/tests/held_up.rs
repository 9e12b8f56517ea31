//! A store that holds its callers up, as one does that syncs every change: the
//! gate lets a runtime's other tasks go on meanwhile.
#![cfg(feature = "gate")]

use std::sync::{Arc, Condvar, Mutex};

use tidegate::contract::core::{Bounds, Timestamp};
use tidegate::contract::{Abilities, Command, Plan, Reply, Store, StoreError, Table};
use tidegate::gate::{Gate, Scope, Served};
use tidegate::policy::parse;
use tidegate::{Ask, Key};
use tidegate_memory::MemoryStore;

const SLOTS: &str = "policy.slots.limits.running = { concurrency = 8 }";

/// A disk that is done when it is told so; until then whoever changes something
/// waits.
#[derive(Default)]
struct Disk {
    done: Mutex<bool>,
    told: Condvar,
}

impl Disk {
    fn finish(&self) {
        *self.done.lock().unwrap() = true;
        self.told.notify_all();
    }

    fn wait(&self) {
        let done = self.done.lock().unwrap();
        drop(self.told.wait_while(done, |done| !*done).unwrap());
    }
}

struct Slow(MemoryStore, Arc<Disk>);

impl Store for Slow {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.0.open(name, plan)?;
        Ok(Arc::new(SlowTable(table, Arc::clone(&self.1))))
    }
}

struct SlowTable(Arc<dyn Table>, Arc<Disk>);

impl Table for SlowTable {
    fn execute(&self, command: &Command<'_>) -> Result<Reply, StoreError> {
        let reply = self.0.execute(command);
        self.1.wait();
        reply
    }

    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        self.0.adopt(plan, now, calendars);
    }

    fn holds_up(&self) -> bool {
        true
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

fn slots(disk: &Arc<Disk>) -> Arc<Served> {
    let file = parse("test.toml", SLOTS).unwrap_or_else(|errors| panic!("{errors}"));
    let store = Slow(MemoryStore::default(), Arc::clone(disk));
    let gate = Gate::builder().store(Arc::new(store)).build(&file).unwrap();
    let caller = gate.enter(None).unwrap();
    gate.policy(&caller, Scope::Decide, "slots").unwrap()
}

/// One thread, eight asks, and whoever lets the disk finish comes last: were the
/// thread held up by the first, nobody ever would.
#[test]
fn who_waits_for_a_disk_holds_up_no_other_task() {
    let disk = Arc::new(Disk::default());
    let served = slots(&disk);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let ask = |within: Option<std::time::Duration>| {
        let served = Arc::clone(&served);
        runtime.spawn(async move {
            let ask = within.map_or(Ask::default(), |within| Ask::default().within(within));
            served.acquire(Key::from("k"), ask).await.map(drop)
        })
    };
    let hour = std::time::Duration::from_secs(3_600);
    let asks: Vec<_> = (0..8)
        .map(|nth| ask((nth % 2 == 0).then_some(hour)))
        .collect();
    let last = runtime.spawn(async move { disk.finish() });
    runtime.block_on(async {
        last.await.unwrap();
        for ask in asks {
            ask.await.unwrap().unwrap();
        }
    });
}

/// A runtime of one thread has no other: it waits as any caller does.
#[tokio::test]
async fn a_runtime_of_one_thread_is_held_up_and_answered() {
    let disk = Arc::new(Disk::default());
    let served = slots(&disk);
    disk.finish();
    let entry = served.acquire(Key::from("k"), Ask::default()).await;
    assert!(entry.is_ok());
}
