//! The thread that renews the leases of one set that are kept alive: on any async
//! runtime or none, and whatever the holders' threads are busy with.
//!
//! Most leases end before their first renewal is due: until then a renewal is one alarm of
//! its lease's clock, and neither a future nor a waker is made for it. From there on it is a
//! future, which this thread polls when it is woken. A renewal at a store beyond a network
//! does not hold up the others, and one that panics ends alone: its lease is lost when it
//! expires.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use tidegate_core::Timestamp;
use tidegate_store::{Alarm, TimerHandler};

use crate::clock::Clock;

/// What this thread carries out: nothing until it is due, and a future from there on.
pub(crate) trait Renews: Send + 'static {
    /// By whose time it is due.
    fn clock(&self) -> &Clock;

    /// When it is due first; `None`: now.
    fn due(&self) -> Option<Timestamp>;

    /// Carries it out, to the end.
    fn run(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// See the [module](self). Dropped, it lets its thread end when the last lease
/// has.
pub(crate) struct RenewalThread(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Each task at most once.
    woken: VecDeque<Arc<Task>>,
    /// How many have not ended.
    tasks: usize,
    closed: bool,
}

struct Task {
    work: Mutex<Work>,
    is_woken: Mutex<bool>,
    queue: Arc<Queue>,
}

/// How far a renewal has come.
enum Work {
    /// Its first step is due when the alarm rings.
    Due(Box<dyn Renews>, Option<Alarm>),
    UnderWay(Pin<Box<dyn Future<Output = ()> + Send>>),
    Ended,
}

impl RenewalThread {
    /// # Errors
    /// Why it could not be started.
    pub(crate) fn start() -> Result<Self, String> {
        let queue = Arc::<Queue>::default();
        let runs = Arc::clone(&queue);
        let thread = thread::Builder::new().name("tidegate-renewal".into());
        let spawned = thread.spawn(move || runs.run());
        spawned.map_err(|error| error.to_string())?;
        Ok(Self(queue))
    }

    /// Renews until the lease is ended or lost, or the answer is dropped. The caller takes
    /// the first step of what is due now, so that the thread need not be woken for it.
    pub(crate) fn spawn(&self, renewal: impl Renews) -> RenewalTask {
        let (clock, due) = (renewal.clock().clone(), renewal.due());
        let task = Arc::new(Task {
            work: Mutex::new(Work::Due(Box::new(renewal), None)),
            is_woken: Mutex::new(false),
            queue: Arc::clone(&self.0),
        });
        self.0.lock().tasks += 1;
        match due {
            Some(due) => task.ring(&clock, due),
            None => task.step(),
        }
        RenewalTask(task)
    }
}

/// A renewal to come or under way. Dropped, it is dropped, too, and with it the store that it
/// asks: whoever has let go of everything may open that anew at once.
pub(crate) struct RenewalTask(Arc<Task>);

impl Drop for RenewalTask {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Drop for RenewalThread {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl Queue {
    fn run(&self) {
        while let Some(task) = self.next() {
            task.step();
        }
    }

    /// Who was woken first; `None` when there is nobody to come.
    fn next(&self) -> Option<Arc<Task>> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.woken.pop_front() {
                return Some(task);
            }
            if state.closed && state.tasks == 0 {
                return None;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Task {
    /// Takes its first step at `due`.
    fn ring(self: &Arc<Self>, clock: &Clock, due: Timestamp) {
        let mut work = lock(&self.work);
        if let Work::Due(_, alarm) = &mut *work {
            let who: Weak<dyn TimerHandler> = Arc::<Self>::downgrade(self);
            *alarm = Some(clock.timer().set(due, who));
        }
    }

    /// Polls it once.
    fn step(self: &Arc<Self>) {
        // Before the poll: a wake in it counts.
        *lock(&self.is_woken) = false;
        let mut work = lock(&self.work);
        if let Work::Due(..) = &*work
            && let Work::Due(renewal, _) = std::mem::replace(&mut *work, Work::Ended)
        {
            *work = Work::UnderWay(renewal.run());
        }
        let Work::UnderWay(pending) = &mut *work else {
            return;
        };
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        // The panic hook has told of it; the work is dropped, and nobody looks at it again.
        let polled = catch_unwind(AssertUnwindSafe(|| pending.as_mut().poll(&mut context)));
        let polled = polled.unwrap_or(Poll::Ready(()));
        drop(work);
        if polled.is_ready() {
            self.end();
        }
    }

    /// Drops the work, if it is still there; under its lock, so that it is gone
    /// for whoever finds that another has dropped it.
    fn end(&self) {
        let mut work = lock(&self.work);
        match &*work {
            Work::Due(renewal, Some(alarm)) => renewal.clock().take_back(*alarm),
            Work::Due(..) | Work::UnderWay(_) => {}
            Work::Ended => return,
        }
        *work = Work::Ended;
        drop(work);
        let mut state = self.queue.lock();
        state.tasks -= 1;
        if state.closed {
            self.queue.changed.notify_one();
        }
    }
}

impl TimerHandler for Task {
    fn fire(self: Arc<Self>, _: Timestamp) {
        self.wake();
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if std::mem::replace(&mut *lock(&self.is_woken), true) {
            return;
        }
        let queue = Arc::clone(&self.queue);
        queue.lock().woken.push_back(self);
        queue.changed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
