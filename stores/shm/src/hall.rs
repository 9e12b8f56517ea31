//! Where the requests of a process wait: the thread that drives them, one that sleeps on
//! the process's bell in the segment, and those who watch other processes: when one is
//! killed, whoever waits here looks whether its turn has come.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::thread::futex;
use tidegate_net::{Driver, Finish};
use tidegate_store::StoreError;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::bells::{self, NUMBERS};
use crate::error::Fault;
use crate::layout::{bell, bell_at};
use crate::process::{self, Process};
use crate::steps::Steps;

/// Where a process may open no file more, those who wait look so often whether others are
/// there.
const WITHOUT_HANDLES: Duration = Duration::from_secs(1);

/// See the [module](self).
pub(crate) struct Hall {
    driver: Driver,
    /// Of which fork's process it is.
    generation: u64,
    bell: usize,
    next: AtomicU32,
    waiting: Mutex<HashMap<u32, Vec<Weak<Notify>>>>,
    watched: Mutex<HashSet<Process>>,
    is_over: AtomicBool,
}

impl fmt::Debug for Hall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Hall");
        shown.field("bell", &self.bell).finish_non_exhaustive()
    }
}

/// What wakes one request. Dropped, nothing does.
pub(crate) struct Wakes {
    hall: Arc<Hall>,
    pub(crate) number: u32,
    rung: Arc<Notify>,
}

impl Wakes {
    /// Until its turn may have come.
    pub(crate) async fn rung(&self) {
        self.rung.notified().await;
    }

    pub(crate) fn bell(&self) -> u32 {
        self.hall.bell as u32
    }

    /// When one of these is killed, it is woken.
    pub(crate) fn watch(&self, processes: &[Process]) {
        self.hall.watch(processes);
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        let mut waiting = self.hall.waiting.lock();
        if let Some(of) = waiting.get_mut(&self.number) {
            let own = Arc::downgrade(&self.rung);
            of.retain(|one| !one.ptr_eq(&own));
            if of.is_empty() {
                waiting.remove(&self.number);
            }
        }
    }
}

/// The hall of this process, once one of its requests has waited.
#[derive(Debug)]
pub(crate) struct Halls {
    steps: Arc<Steps>,
    hall: Mutex<Option<Arc<Hall>>>,
}

impl Halls {
    pub(crate) fn new(steps: &Arc<Steps>) -> Self {
        Self {
            steps: Arc::clone(steps),
            hall: Mutex::new(None),
        }
    }

    /// The hall of this process, which the first request that waits opens.
    pub(crate) fn hall(&self) -> Result<Arc<Hall>, StoreError> {
        let mut hall = self.hall.lock();
        let generation = process::generation();
        if let Some(open) = &*hall {
            if open.generation == generation {
                return Ok(Arc::clone(open));
            }
            // The parent's, whose threads this child of a fork has not: it stays as it is.
            let _parents = std::mem::ManuallyDrop::new(Arc::clone(open));
        }
        let opened = Hall::open(&self.steps, generation)?;
        *hall = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Wakes all requests that wait here: their limits have changed.
    pub(crate) fn wake_all(&self) {
        let hall = self.hall.lock().clone();
        if let Some(hall) = hall.filter(|hall| hall.generation == process::generation()) {
            hall.wake_all();
        }
    }

    /// Closes the hall: nobody of this process waits any more.
    pub(crate) fn close(&self) {
        let Some(hall) = self.hall.lock().take() else {
            return;
        };
        if hall.generation != process::generation() {
            let _parents = std::mem::ManuallyDrop::new(hall);
            return;
        }
        hall.is_over.store(true, Ordering::SeqCst);
        let at = bell_at(hall.bell);
        bells::wake(&self.steps.segment, at + bell::RUNG);
        // One that cannot be given back now is another's once this process has ended.
        let _ = self.steps.register(|txn| txn.write(at + bell::PID, 0));
    }
}

impl Hall {
    fn open(steps: &Arc<Steps>, generation: u64) -> Result<Arc<Self>, StoreError> {
        let no_thread =
            |error| StoreError::Unavailable(format!("no thread for those who wait: {error}"));
        let driver = Driver::new("tidegate-shm", steps.deadline).map_err(no_thread)?;
        let hall = Arc::new(Self {
            driver,
            generation,
            bell: claim(steps)?,
            next: AtomicU32::new(0),
            waiting: Mutex::default(),
            watched: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let (weak, segment) = (Arc::downgrade(&hall), Arc::downgrade(steps));
        let listening = thread::Builder::new().name("tidegate-shm-bell".to_owned());
        let listening = listening.spawn(move || listen(&weak, &segment));
        listening.map_err(no_thread)?;
        Ok(hall)
    }

    pub(crate) const fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(crate) fn finish(&self) -> Finish {
        self.driver.finish()
    }

    /// For one request more.
    pub(crate) fn join(self: &Arc<Self>) -> Wakes {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % NUMBERS;
        let rung = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock();
        waiting
            .entry(number)
            .or_default()
            .push(Arc::downgrade(&rung));
        drop(waiting);
        Wakes {
            hall: Arc::clone(self),
            number,
            rung,
        }
    }

    fn wake(&self, number: u32) {
        let waiting = self.waiting.lock();
        let of = waiting.get(&number).into_iter().flatten();
        for one in of.filter_map(Weak::upgrade) {
            one.notify_one();
        }
    }

    fn wake_all(&self) {
        let waiting = self.waiting.lock();
        for one in waiting.values().flatten().filter_map(Weak::upgrade) {
            one.notify_one();
        }
    }

    fn watch(self: &Arc<Self>, processes: &[Process]) {
        let me = process::me();
        for process in processes {
            let is_other = *process != me && process.namespace == me.namespace;
            if is_other && self.watched.lock().insert(*process) {
                self.begin_watch(*process);
            }
        }
    }

    fn begin_watch(self: &Arc<Self>, process: Process) {
        let (Some(handle), hall) = (self.driver.handle(), Arc::downgrade(self)) else {
            return;
        };
        handle.spawn(async move {
            match process.handle() {
                Ok(Some(handle)) => ended(handle).await,
                Ok(None) => {}
                Err(_) => tokio::time::sleep(WITHOUT_HANDLES).await,
            }
            if let Some(hall) = hall.upgrade() {
                hall.watched.lock().remove(&process);
                hall.wake_all();
            }
        });
    }

    /// Wakes those for whom the bell was rung.
    fn hear(&self, steps: &Steps) {
        let words = steps.segment.mapping().words();
        let bits = bell_at(self.bell) + bell::BITS;
        for word in 0..bell::BIT_WORDS {
            let mut rung = words[bits + word].swap(0, Ordering::SeqCst);
            while rung != 0 {
                let bit = rung.trailing_zeros();
                rung &= rung - 1;
                self.wake(word as u32 * u64::BITS + bit);
            }
        }
    }
}

/// Until a process has ended; where that cannot be told, for a moment.
#[allow(
    deprecated,
    reason = "unsound for a handle that closes itself early; this one is closed with its owner"
)]
async fn ended(handle: OwnedFd) {
    match AsyncFd::with_interest(handle, Interest::READABLE) {
        Ok(handle) => drop(handle.readable().await),
        Err(_) => tokio::time::sleep(WITHOUT_HANDLES).await,
    }
}

/// Hears the bell until the hall is closed.
fn listen(hall: &Weak<Hall>, steps: &Weak<Steps>) {
    loop {
        let (Some(hall), Some(steps)) = (hall.upgrade(), steps.upgrade()) else {
            return;
        };
        let word = steps
            .segment
            .mapping()
            .futex(bell_at(hall.bell) + bell::RUNG);
        let seen = word.load(Ordering::SeqCst);
        hall.hear(&steps);
        if hall.is_over.load(Ordering::SeqCst) {
            return;
        }
        drop(hall);
        let _ = futex::wait(word, futex::Flags::empty(), seen, None);
    }
}

/// A bell that no process has, or one whose process has ended.
fn claim(steps: &Steps) -> Result<usize, StoreError> {
    let me = process::me();
    steps.register(|txn| {
        for number in 0..bell::COUNT {
            let at = bell_at(number);
            let pid = txn.get(at + bell::PID)?;
            let owner = Process {
                namespace: txn.get(at + bell::NAMESPACE)?,
                pid: u32::try_from(pid).unwrap_or(0),
                start: txn.get(at + bell::START)?,
            };
            // Two stores of one process on one segment have a bell each.
            if pid == 0 || !owner.is_there() {
                txn.write(at + bell::PID, u64::from(me.pid))?;
                txn.write(at + bell::START, me.start)?;
                txn.write(at + bell::NAMESPACE, me.namespace)?;
                return Ok(number);
            }
        }
        Err(Fault::Told(StoreError::Busy(format!(
            "requests of {} processes wait already, as many as a segment has room for",
            bell::COUNT
        ))))
    })
}
