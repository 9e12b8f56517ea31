//! A disk that fails, and one that stalls.
#![expect(
    clippy::disallowed_methods,
    reason = "the writer goes by real time, and so do those who wait for it"
)]

use std::future::Future as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;
use tidegate::StoreError;
use tidegate::lock::LeasedMutex;
use tidegate::{DecisionError, Limit, LimitPool, LimitSet, ManualClock, Request, Store as _};

use crate::birth::{self, LockedFile};
use crate::medium::Medium;
use crate::{FileStore, Options, SyncMode};

const DAY: Duration = Duration::from_secs(86_400);

/// A file on a disk that does as a test says.
#[derive(Debug)]
struct Disk {
    file: Arc<LockedFile>,
    /// The next sync fails, and those after it succeed: as a kernel has it that
    /// has dropped what it could not write.
    fails_once: AtomicBool,
    stalls: Mutex<bool>,
    goes_on: Condvar,
    /// How often it was asked to sync.
    syncs: AtomicUsize,
}

impl Disk {
    fn stall(&self, stalls: bool) {
        *self.stalls.lock() = stalls;
        self.goes_on.notify_all();
    }
}

impl Medium for Disk {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Medium::read_at(&*self.file, offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Medium::write_at(&*self.file, offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let mut stalls = self.stalls.lock();
        while *stalls {
            self.goes_on.wait(&mut stalls);
        }
        match self.fails_once.swap(false, Ordering::SeqCst) {
            true => Err(io::Error::other("Input/output error")),
            false => self.file.sync(),
        }
    }
}

struct House {
    folder: TempDir,
    disk: Arc<Disk>,
    store: Arc<FileStore>,
    set: LimitSet,
}

impl House {
    fn new(sync: SyncMode) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let disk = Arc::new(Disk {
            file: birth::file(&path).expect("a new file"),
            fails_once: AtomicBool::new(false),
            stalls: Mutex::new(false),
            goes_on: Condvar::new(),
            syncs: AtomicUsize::new(0),
        });
        let options = Options {
            sync,
            ..Options::default()
        };
        let store = FileStore::open_on(Arc::clone(&disk) as _, &path, options);
        let store = Arc::new(store.expect("a file that opens"));
        let set = set(Arc::clone(&store));
        Self {
            folder,
            disk,
            store,
            set,
        }
    }

    /// Closes it; what the file holds by then is for the next one.
    fn close(self) -> TempDir {
        self.folder
    }
}

fn set(store: Arc<FileStore>) -> LimitSet {
    let limit = Limit::budget("budget", 1_000, DAY);
    let set = LimitSet::builder().name("set").store(store).limit(limit);
    set.build().expect("sensible limits")
}

fn open(path: &Path) -> LimitSet {
    let store = FileStore::open(path, Options::default());
    set(Arc::new(store.expect("a file that opens")))
}

/// The kernel says that a sync has failed, once; the next one succeeds, though
/// what was to be written is gone. The store went on as if it were there.
#[test]
fn after_a_sync_that_failed_nothing_is_granted_until_the_file_is_opened_again() {
    for sync in [SyncMode::Always, SyncMode::Interval(DAY)] {
        let house = House::new(sync);
        assert!(house.set.check("k", 1).wait().expect("no error").admitted());
        house.store.flush().expect("a disk that works");
        house.disk.fails_once.store(true, Ordering::SeqCst);
        let _ = house.set.check("k", 1).wait();
        let words = house.store.flush().expect_err("a disk that failed");
        assert!(words.to_string().contains("Input/output error"), "{words}");
        // It is tried again every fifth of a second.
        for _ in 0..7 {
            thread::sleep(Duration::from_millis(100));
            match house.set.check("k", 1).wait() {
                Err(DecisionError::Store(StoreError::Unavailable(words))) => {
                    assert!(words.contains("restart the server"), "{words}");
                }
                answer => panic!("{answer:?}"),
            }
        }
        assert!(
            house.set.peek("k", 1).wait().is_ok(),
            "nothing is changed by it"
        );
        let folder = house.close();
        let set = open(&folder.path().join("store"));
        assert!(set.check("k", 1).wait().expect("no error").admitted());
    }
}

/// By the interval nobody waits for the disk, but when it is late; a server waited
/// there on the threads of its runtime.
#[test]
fn a_change_is_answered_later_while_the_disk_is_late() {
    let house = House::new(SyncMode::Interval(Duration::from_millis(200)));
    house.disk.stall(true);
    let mut context = Context::from_waker(Waker::noop());
    let late = loop {
        let mut asked = Box::pin(house.set.check("k", 1));
        match asked.as_mut().poll(&mut context) {
            Poll::Ready(answer) => assert!(answer.expect("no error").admitted()),
            Poll::Pending => break asked,
        }
        thread::sleep(Duration::from_millis(10));
    };
    house.disk.stall(false);
    let answer = tidegate_store::block_on(late);
    assert!(answer.expect("no error").admitted());
    house.store.flush().expect("a disk that works");
    assert!(house.set.check("k", 1).wait().expect("no error").admitted());
}

/// The thread that rings alarms waited for the disk, once for each request whose turn had come:
/// a hundred at one instant were a hundred commits, one after the other.
#[test]
fn whose_turn_has_come_at_one_instant_are_served_while_the_disk_is_late_and_by_one_commit() {
    const REQUESTS: usize = 100;
    let (house, clock) = (House::new(SyncMode::Always), ManualClock::default());
    let limit = Limit::rate("daily", 1, DAY);
    let set = LimitSet::builder().name("timed").limit(limit);
    let set = set
        .clock(clock.clock())
        .store(Arc::clone(&house.store) as _);
    let set = set.build().expect("sensible limits");
    let keys: Vec<_> = (0..REQUESTS).map(|n| format!("k{n}")).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting = Vec::new();
    for key in &keys {
        assert!(set.check(key, 1).wait().expect("no error").admitted());
        let mut waits = Box::pin(set.acquire(key, Request::from(1).within(2 * DAY)));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        waiting.push(waits);
    }
    house.store.flush().expect("a disk that works");
    let syncs = || house.disk.syncs.load(Ordering::SeqCst);
    let before = syncs();
    assert!(set.check("alone", 1).wait().expect("no error").admitted());
    house.store.flush().expect("a disk that works");
    let of_one = syncs() - before;

    house.disk.stall(true);
    let (told, done) = mpsc::sync_channel(1);
    let rings = thread::spawn(move || {
        clock.advance(DAY);
        told.send(()).expect("somebody listens");
    });
    let rang = done.recv_timeout(Duration::from_secs(60));
    // All of them have their turn in memory, and wait for the disk.
    for waits in &mut waiting {
        assert!(waits.as_mut().poll(&mut context).is_pending());
    }
    let left = keys.iter().map(|key| set.peek(key, 1).wait());
    let left: u64 = left
        .map(|peeked| peeked.expect("a peek").remaining("daily").expect("a limit"))
        .sum();
    let before = syncs();
    house.disk.stall(false);
    rings.join().expect("no panic");
    assert_eq!(rang, Ok(()), "the timer waits for the disk");
    assert_eq!(left, 0);
    let answers = waiting.into_iter().map(tidegate_store::block_on);
    let leases: Vec<_> = answers
        .map(|answer| answer.expect("no error").granted().expect("its turn"))
        .collect();
    let of_all = syncs() - before;
    assert_eq!(leases.len(), REQUESTS);
    // One group may have begun before all were in it; the next has the others.
    assert!(
        of_all <= 2 * of_one,
        "{of_all} syncs, where one commit is {of_one}"
    );
}

/// A change of limits is in the file before it holds; a server waited for that on the
/// threads of its runtime.
#[test]
fn an_override_is_answered_later_while_the_disk_is_late() {
    let house = House::new(SyncMode::Always);
    let mut context = Context::from_waker(Waker::noop());
    let limits = [Limit::budget("budget", 2_000, DAY)];
    house.disk.stall(true);
    let mut told = Box::pin(house.set.set_override("k", &limits));
    assert!(told.as_mut().poll(&mut context).is_pending());
    assert!(house.set.override_of("k").is_none());
    // It goes on by itself, and whoever closes the store waits for it.
    drop(told);
    house.disk.stall(false);
    let folder = house.close();
    let set = open(&folder.path().join("store"));
    let given = set.override_of("k").expect("it is in the file");
    assert_eq!(given.limits, limits);
}

/// The tables were dropped before the file was told, by an order that had to wait for the disk:
/// their numbers were given to others, whose state was then deleted with theirs; and an order that
/// found no room left them in the file, for good.
#[test]
fn what_is_cleared_while_the_disk_is_late_takes_nothing_along() {
    let house = House::new(SyncMode::Always);
    let table = |name: &str| {
        let limit = Limit::budget("budget", 10, DAY);
        let set = LimitSet::builder().name(name).limit(limit);
        set.store(Arc::clone(&house.store) as _)
            .build()
            .expect("sound")
    };
    assert!(
        table("/x/chat")
            .check("k", 4)
            .wait()
            .expect("no error")
            .admitted()
    );
    house.disk.stall(true);
    // As many changes as may wait, and more.
    let limits = [Limit::budget("budget", 2_000, DAY)];
    let mut context = Context::from_waker(Waker::noop());
    let mut is_full = false;
    for number in 0..2_000 {
        let key = format!("k{number}");
        let mut told = Box::pin(house.set.set_override(key.as_str(), &limits));
        is_full |= told.as_mut().poll(&mut context).is_ready();
    }
    assert!(is_full, "there is no room for an order more");
    let refused = tidegate_store::block_on(house.store.clear("/x/", None));
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    house.disk.stall(false);
    // Until there is room again, and nothing left.
    let is_done = || {
        let cleared = tidegate_store::block_on(house.store.clear("/y/", None));
        cleared.is_ok_and(|cleared| cleared.next.is_none())
    };
    while !is_done() {}
    let other = table("b");
    assert!(other.check("k", 5).wait().expect("no error").admitted());
    drop(other);
    let folder = house.close();
    let store = FileStore::open(folder.path().join("store"), Options::default());
    let store = Arc::new(store.expect("a file that opens"));
    assert_eq!(store.names(), ["b", "set"]);
    let limit = Limit::budget("budget", 10, DAY);
    let other = LimitSet::builder().name("b").limit(limit).store(store);
    let other = other.build().expect("sound");
    let peeked = other.peek("k", 1).wait().expect("a peek");
    assert_eq!(peeked.standing("budget").expect("a standing").remaining, 5);
}

/// A try that is given up is not repeated: its slot stayed taken for the mutex's whole ttl.
#[test]
fn a_try_for_a_mutex_that_is_given_up_holds_nothing() {
    let house = House::new(SyncMode::Always);
    let store: Arc<dyn tidegate::Store> = Arc::clone(&house.store) as _;
    let mutex = LeasedMutex::builder("deploy").store(store).ttl(DAY);
    let mutex = mutex.build().expect("sensible");
    house.disk.stall(true);
    let mut context = Context::from_waker(Waker::noop());
    let mut tried = Box::pin(std::future::IntoFuture::into_future(mutex.try_lock()));
    assert!(tried.as_mut().poll(&mut context).is_pending());
    drop(tried);
    house.disk.stall(false);
    house.store.flush().expect("a disk that works");
    let held = mutex.try_lock().wait().expect("the store answers");
    assert!(held.is_some(), "nobody holds it");
}

/// Another member of the same store is as late, and would be charged as well.
#[test]
fn members_of_one_file_are_not_asked_beside_each_other() {
    let house = House::new(SyncMode::Always);
    let member = |name: &str| {
        let limit = Limit::budget("budget", 10, DAY);
        let set = LimitSet::builder().name(name).limit(limit);
        let set = set.store(Arc::clone(&house.store) as _).build();
        set.expect("sound")
    };
    let (a, b) = (member("a"), member("b"));
    let pool = LimitPool::builder().member("a", a.clone());
    let pool = pool.member("b", b.clone()).build().expect("two members");
    house.disk.stall(true);
    let mut context = Context::from_waker(Waker::noop());
    let mut asked = Box::pin(std::future::IntoFuture::into_future(pool.check("k", 1)));
    assert!(asked.as_mut().poll(&mut context).is_pending());
    thread::sleep(Duration::from_millis(400));
    assert!(asked.as_mut().poll(&mut context).is_pending());
    house.disk.stall(false);
    assert!(
        tidegate_store::block_on(asked)
            .expect("no error")
            .admitted()
    );
    let left = |set: &LimitSet| {
        let peek = set.peek("k", 1).wait().expect("a peek");
        peek.remaining("budget").expect("there is one")
    };
    assert_eq!(left(&a) + left(&b), 19);
}
