//! Which group a change is in, and who waits for it.
//!
//! Groups are numbered. The writer takes a number, and then collects: a change
//! that was made before is in that group or an earlier one. So who reads the
//! number after its change waits for the next, and whoever comes while a group
//! is being written shares the one after it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidegate_store::StoreError;

use crate::error::FileError;
use crate::options::SyncMode;

/// How long after a failure the file is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// With [`SyncMode::Never`]: when a change is handed over, and at the latest.
const HAND_OVER: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// No change waits to be written.
const NONE: u64 = u64::MAX;

/// Asks for a compaction, with where to answer.
pub(super) type Compaction = SyncSender<Result<bool, FileError>>;

/// What the writer is to do next.
pub(super) enum Turn {
    /// Write what has changed.
    Write,
    /// Make the file small.
    Compact(Compaction),
    /// Write what has changed, and end.
    Close,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Progress {
    sync: SyncMode,
    started: Instant,
    state: Mutex<State>,
    /// The writer waits here.
    work: Condvar,
    /// The file cannot be written: nothing may change.
    shut: AtomicBool,
    /// When the oldest change was made that no group has collected, and the
    /// oldest of the group being written: microseconds since the start.
    waiting_since: AtomicU64,
    writing_since: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the newest group.
    group: u64,
    /// Groups up to this one are written.
    written: u64,
    /// Who waits for a group up to this one, and it is not written, is refused.
    failed: u64,
    /// Somebody waits for the next group.
    wanted: bool,
    /// Why the file cannot be written.
    failure: Option<String>,
    compaction: Option<Compaction>,
    closing: bool,
    /// Who waits for a group.
    wakers: Vec<Waker>,
}

/// Wakes everyone who waits for a group, once the lock is let go.
fn wake(mut state: MutexGuard<'_, State>) {
    let wakers = std::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

impl Progress {
    pub(super) fn new(sync: SyncMode) -> Self {
        Self {
            sync,
            started: instant(),
            state: Mutex::default(),
            work: Condvar::new(),
            shut: AtomicBool::new(false),
            waiting_since: AtomicU64::new(NONE),
            writing_since: AtomicU64::new(NONE),
        }
    }

    /// How far fences may have grown since the last group, and be lost.
    pub(super) fn fence_reserve(&self) -> u64 {
        let span = match self.sync {
            SyncMode::Always => return 0,
            SyncMode::Interval(span) => span,
            // A machine's write-back takes half a minute by default.
            SyncMode::Never => Duration::from_secs(3_600),
        };
        // A grant takes longer than the sixteenth of a microsecond.
        (span.as_micros() as u64).saturating_mul(16)
    }

    /// When the oldest change was made that is not written.
    fn oldest(&self) -> u64 {
        // In this order: a group that begins is in the one before it leaves the
        // other.
        let waiting = self.waiting_since.load(Ordering::Acquire);
        waiting.min(self.writing_since.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.shut.load(Ordering::Relaxed) {
            return Err(self.failure());
        }
        Ok(())
    }

    #[cold]
    fn failure(&self) -> StoreError {
        let state = self.state.lock();
        let why = state.failure.clone();
        StoreError::Unavailable(why.unwrap_or_else(|| "the journal was just written again".into()))
    }

    /// A change was made: whether it may be acknowledged; else the group that it is in.
    pub(super) fn keep(&self) -> Result<Option<u64>, StoreError> {
        let (_, most) = match self.interval() {
            None => return Ok(Some(self.next_group())),
            Some(interval) => interval,
        };
        let now = self.micros();
        if self.waiting_since.load(Ordering::Relaxed) == NONE {
            self.note(now);
        }
        if now.saturating_sub(self.oldest()) < micros(most) {
            return Ok(None);
        }
        Ok(Some(self.next_group()))
    }

    /// When a change is to be written, and when it must have been; `None`:
    /// before it is acknowledged.
    fn interval(&self) -> Option<(Duration, Duration)> {
        match self.sync {
            SyncMode::Always => None,
            SyncMode::Interval(span) => Some((span / 2, span)),
            SyncMode::Never => Some(HAND_OVER),
        }
    }

    /// The first change since the last group was collected.
    #[cold]
    fn note(&self, now: u64) {
        let _state = self.state.lock();
        let (order, since) = (Ordering::Relaxed, &self.waiting_since);
        if since.compare_exchange(NONE, now, order, order).is_ok() {
            self.work.notify_one();
        }
    }

    /// Has a group written soon.
    pub(super) fn want(&self) {
        self.state.lock().wanted = true;
        self.work.notify_one();
    }

    /// The next group, which is to be written now.
    pub(super) fn next_group(&self) -> u64 {
        let mut state = self.state.lock();
        state.wanted = true;
        self.work.notify_one();
        state.group + 1
    }

    /// Whether `group` is written; `waker` is woken when that is known.
    pub(super) fn poll_written(&self, group: u64, waker: &Waker) -> Poll<Result<(), StoreError>> {
        let mut state = self.state.lock();
        if state.written >= group {
            return Poll::Ready(Ok(()));
        }
        if state.failed >= group {
            let why = state.failure.clone().unwrap_or_default();
            return Poll::Ready(Err(StoreError::Unavailable(why)));
        }
        if !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    pub(super) fn ask_compaction(&self) -> Receiver<Result<bool, FileError>> {
        let (ask, answer) = sync_channel(1);
        let mut state = self.state.lock();
        state.compaction = Some(ask);
        self.work.notify_one();
        answer
    }

    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.work.notify_one();
    }

    /// Waits for something to do.
    pub(super) fn next_turn(&self) -> Turn {
        let mut state = self.state.lock();
        loop {
            if state.closing {
                return Turn::Close;
            }
            if state.failure.is_some() {
                self.work.wait_for(&mut state, RETRY);
                return if state.closing {
                    Turn::Close
                } else {
                    Turn::Write
                };
            }
            if let Some(compaction) = state.compaction.take() {
                return Turn::Compact(compaction);
            }
            match self.due_in(&state) {
                Some(Duration::ZERO) => return Turn::Write,
                Some(left) => drop(self.work.wait_for(&mut state, left)),
                None => self.work.wait(&mut state),
            }
        }
    }

    /// In how long the next group is to be written, if there is one.
    fn due_in(&self, state: &State) -> Option<Duration> {
        if state.wanted {
            return Some(Duration::ZERO);
        }
        let since = self.waiting_since.load(Ordering::Relaxed);
        let (interval, _) = self.interval().filter(|_| since != NONE)?;
        let due = Duration::from_micros(since) + interval;
        Some(due.saturating_sub(Duration::from_micros(self.micros())))
    }

    /// A group begins: what is changed from here on may be in the next one.
    pub(super) fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        state.group += 1;
        state.wanted = false;
        // Only under this lock does it change from nothing to something.
        let since = self.waiting_since.load(Ordering::Relaxed);
        self.writing_since.fetch_min(since, Ordering::Relaxed);
        self.waiting_since.store(NONE, Ordering::Release);
        state.group
    }

    /// The group was written, and so is every change before it.
    pub(super) fn succeed(&self, group: u64) {
        let mut state = self.state.lock();
        state.written = group;
        state.failure = None;
        self.writing_since.store(NONE, Ordering::Relaxed);
        self.shut.store(false, Ordering::Relaxed);
        wake(state);
    }

    /// The group was not written: who waits, also for the next one, is refused,
    /// and nothing may change until one is.
    pub(super) fn fail(&self, group: u64, why: String) {
        let mut state = self.state.lock();
        self.shut.store(true, Ordering::Relaxed);
        state.failed = group + 1;
        state.failure = Some(why);
        wake(state);
    }

    /// The writer is gone: nothing is ever written again.
    pub(super) fn end(&self) {
        self.fail(
            u64::MAX - 1,
            "the journal has ended; open the file again".into(),
        );
    }

    fn micros(&self) -> u64 {
        micros(instant().duration_since(self.started))
    }
}

const fn micros(span: Duration) -> u64 {
    span.as_micros() as u64
}

#[expect(
    clippy::disallowed_methods,
    reason = "how old an unwritten change is, is a matter of real time, and decides nothing"
)]
fn instant() -> Instant {
    Instant::now()
}
