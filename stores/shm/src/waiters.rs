//! Where the requests of a process wait: the thread that drives them, one that sleeps on
//! the process's futex in the segment, and those who watch other processes: when one is
//! killed, whoever waits here looks whether its turn has come.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_net::{Driver, Finish};
use tidegate_store::StoreError;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::error::Fault;
use crate::layout::{wakeup_slot, wakeup_slot_at};
use crate::process::{self, Process, There};
use crate::steps::Steps;
use crate::txn::Txn;
use crate::wakeup::{self, NUMBERS};

/// Where a process may open no file more, those who wait look so often whether others are
/// there.
const WITHOUT_HANDLES: Duration = Duration::from_secs(1);

/// That a process runs another program, nobody is told of: whoever watches it looks so often.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// See the [module](self).
pub(crate) struct Waiters {
    driver: Driver,
    /// Of which fork's process it is.
    generation: u64,
    wakeup_slot: usize,
    next: AtomicU32,
    waiting: Mutex<HashMap<u32, Vec<Weak<Notify>>>>,
    watched: Mutex<HashSet<Process>>,
    is_over: AtomicBool,
    /// The thread that sleeps on the futex.
    listening: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Waiters");
        shown
            .field("wakeup_slot", &self.wakeup_slot)
            .finish_non_exhaustive()
    }
}

/// What wakes one request. Dropped, nothing does.
pub(crate) struct Registration {
    waiters: Arc<Waiters>,
    pub(crate) number: u32,
    woken: Arc<Notify>,
}

impl Registration {
    /// Until its turn may have come.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }

    pub(crate) fn wakeup_slot(&self) -> u32 {
        self.waiters.wakeup_slot as u32
    }

    /// When one of these is killed, it is woken.
    pub(crate) fn watch(&self, processes: &[Process]) {
        self.waiters.watch(processes);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut waiting = self.waiters.waiting.lock();
        if let Some(of) = waiting.get_mut(&self.number) {
            let own = Arc::downgrade(&self.woken);
            of.retain(|one| !one.ptr_eq(&own));
            if of.is_empty() {
                waiting.remove(&self.number);
            }
        }
    }
}

/// The waiters of this process, once one of its requests has waited.
#[derive(Debug)]
pub(crate) struct LazyWaiters {
    steps: Arc<Steps>,
    waiters: Mutex<Option<Arc<Waiters>>>,
}

impl LazyWaiters {
    pub(crate) fn new(steps: &Arc<Steps>) -> Self {
        Self {
            steps: Arc::clone(steps),
            waiters: Mutex::new(None),
        }
    }

    /// The waiters of this process, which its first request that waits begins.
    pub(crate) fn get(&self) -> Result<Arc<Waiters>, StoreError> {
        let mut waiters = self.waiters.lock();
        let generation = process::generation();
        if let Some(open) = &*waiters {
            if open.generation == generation {
                return Ok(Arc::clone(open));
            }
            // The parent's, whose threads this child of a fork has not: it stays as it is.
            let _parents = std::mem::ManuallyDrop::new(Arc::clone(open));
        }
        let opened = Waiters::open(&self.steps, generation)?;
        *waiters = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Wakes all requests that wait here: their limits have changed.
    pub(crate) fn wake_all(&self) {
        let waiters = self.waiters.lock().clone();
        if let Some(waiters) = waiters.filter(|waiters| waiters.generation == process::generation())
        {
            waiters.wake_all();
        }
    }

    /// Ends them: nobody of this process waits any more.
    pub(crate) fn close(&self) {
        let Some(waiters) = self.waiters.lock().take() else {
            return;
        };
        if waiters.generation != process::generation() {
            let _parents = std::mem::ManuallyDrop::new(waiters);
            return;
        }
        waiters.is_over.store(true, Ordering::SeqCst);
        let at = wakeup_slot_at(waiters.wakeup_slot);
        wakeup::wake(&self.steps.segment, at + wakeup_slot::FUTEX);
        // Else it could take a wake-up that is its next owner's.
        if let Some(listening) = waiters.listening.lock().take() {
            let _ = listening.join();
        }
        // One that cannot be given back now is another's once this process has ended.
        let _ = self
            .steps
            .register(|txn| txn.write(at + wakeup_slot::PID, 0));
    }
}

impl Waiters {
    fn open(steps: &Arc<Steps>, generation: u64) -> Result<Arc<Self>, StoreError> {
        let no_thread =
            |error| StoreError::Unavailable(format!("no thread for those who wait: {error}"));
        let driver = Driver::new("tidegate-shm", steps.deadline).map_err(no_thread)?;
        // A wakeup slot is taken when all else is there: what fails before takes none.
        let (tells, told) = sync_channel::<Weak<Self>>(1);
        let segment = Arc::downgrade(steps);
        let listening = thread::Builder::new().name("tidegate-shm-woken".to_owned());
        let listening = listening.spawn(move || {
            if let Ok(waiters) = told.recv() {
                listen(&waiters, &segment);
            }
        });
        let listening = listening.map_err(no_thread)?;
        let waiters = Arc::new(Self {
            driver,
            generation,
            wakeup_slot: claim(steps)?,
            next: AtomicU32::new(0),
            waiting: Mutex::default(),
            watched: Mutex::default(),
            is_over: AtomicBool::new(false),
            listening: Mutex::new(Some(listening)),
        });
        let _ = tells.send(Arc::downgrade(&waiters));
        Ok(waiters)
    }

    pub(crate) const fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(crate) fn finish(&self) -> Finish {
        self.driver.finish()
    }

    /// For one request more.
    pub(crate) fn join(self: &Arc<Self>) -> Registration {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % NUMBERS;
        let woken = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock();
        waiting
            .entry(number)
            .or_default()
            .push(Arc::downgrade(&woken));
        drop(waiting);
        Registration {
            waiters: Arc::clone(self),
            number,
            woken,
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
        let waiters = Arc::downgrade(self);
        self.driver.handle().spawn(async move {
            match process.handle() {
                Ok(Some(handle)) => ended(process, handle).await,
                Ok(None) => {}
                Err(_) => tokio::time::sleep(WITHOUT_HANDLES).await,
            }
            if let Some(waiters) = waiters.upgrade() {
                waiters.watched.lock().remove(&process);
                waiters.wake_all();
            }
        });
    }

    /// Wakes those requests that are marked; what the futex was before.
    fn wake_marked(&self, steps: &Steps) -> u32 {
        wakeup::take_marked(&steps.segment, self.wakeup_slot as u32, |number| {
            self.wake(number);
        })
    }
}

/// Until a process has ended, or runs another program; where that cannot be told, for a moment.
#[allow(
    deprecated,
    reason = "unsound for a handle that closes itself early; this one is closed with its owner"
)]
async fn ended(process: Process, handle: OwnedFd) {
    let Ok(handle) = AsyncFd::with_interest(handle, Interest::READABLE) else {
        return tokio::time::sleep(WITHOUT_HANDLES).await;
    };
    while process.is_there() {
        if timeout(BETWEEN_LOOKS, handle.readable()).await.is_ok() {
            break;
        }
    }
}

/// Sleeps on the futex until the waiters are at an end.
fn listen(waiters: &Weak<Waiters>, steps: &Weak<Steps>) {
    loop {
        let (Some(waiters), Some(steps)) = (waiters.upgrade(), steps.upgrade()) else {
            return;
        };
        let (slot, seen) = (waiters.wakeup_slot as u32, waiters.wake_marked(&steps));
        if waiters.is_over.load(Ordering::SeqCst) {
            return;
        }
        drop(waiters);
        wakeup::sleep(&steps.segment, slot, seen);
    }
}

/// A wakeup slot that no process has, or one whose process has ended.
fn claim(steps: &Steps) -> Result<usize, StoreError> {
    loop {
        let owners = match steps.register(take_free)? {
            Free::Taken(number) => return Ok(number),
            Free::None(owners) => owners,
        };
        // The system is asked for each: without the lock.
        let (mut there, owners) = (There::default(), owners.into_iter().enumerate());
        let gone: Vec<_> = owners.filter(|(_, owner)| !there.is(*owner)).collect();
        if gone.is_empty() {
            return Err(StoreError::Busy(format!(
                "requests of {} processes wait already, as many as a segment has room for",
                wakeup_slot::COUNT
            )));
        }
        // Another may have been quicker.
        if let Some(number) = steps.register(|txn| take_over(txn, &gone))? {
            return Ok(number);
        }
    }
}

/// What comes of looking for a wakeup slot that is free.
enum Free {
    Taken(usize),
    /// All have an owner.
    None(Vec<Process>),
}

/// Takes one that is nobody's. (Two stores of one process on one segment have a slot each.)
fn take_free(txn: &mut Txn<'_>) -> Result<Free, Fault> {
    let mut owners = Vec::new();
    for number in 0..wakeup_slot::COUNT {
        let owner = owner_of(txn, number)?;
        if owner.pid == 0 {
            own(txn, number)?;
            return Ok(Free::Taken(number));
        }
        owners.push(owner);
    }
    Ok(Free::None(owners))
}

/// Takes the first of these that has its owner still.
fn take_over(txn: &mut Txn<'_>, gone: &[(usize, Process)]) -> Result<Option<usize>, Fault> {
    for (number, owner) in gone {
        if owner_of(txn, *number)? == *owner {
            own(txn, *number)?;
            return Ok(Some(*number));
        }
    }
    Ok(None)
}

fn owner_of(txn: &Txn<'_>, number: usize) -> Result<Process, Fault> {
    let at = wakeup_slot_at(number);
    Ok(Process {
        namespace: txn.get(at + wakeup_slot::NAMESPACE)?,
        pid: u32::try_from(txn.get(at + wakeup_slot::PID)?).unwrap_or(0),
        start: txn.get(at + wakeup_slot::START)?,
    })
}

fn own(txn: &mut Txn<'_>, number: usize) -> Result<(), Fault> {
    let (me, at) = (process::me(), wakeup_slot_at(number));
    txn.write(at + wakeup_slot::PID, u64::from(me.pid))?;
    txn.write(at + wakeup_slot::START, me.start)?;
    txn.write(at + wakeup_slot::NAMESPACE, me.namespace)
}
