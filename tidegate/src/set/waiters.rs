//! The requests of this process that wait for their turn at a set: how many they are, and
//! how all of them are told that there will be none.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::DecisionError;

/// See the [module](self).
pub(crate) struct Waiters {
    state: Mutex<State>,
    /// How often all of them were stopped.
    stops: AtomicU64,
    /// How many may wait.
    most: usize,
}

#[derive(Default)]
struct State {
    /// By turn; no waker until its future was polled.
    waiters: HashMap<u128, Option<Waker>, foldhash::fast::RandomState>,
}

/// A request that may come to wait. It is one of them from when it first waits on, also
/// while it tries again, until this is dropped.
pub(super) struct Waiter<'w> {
    waiters: &'w Waiters,
    turn: u128,
    /// How often others were stopped before it came.
    stops: u64,
    has_joined: AtomicBool,
}

impl Waiters {
    pub(super) fn new(most: usize) -> Self {
        Self {
            state: Mutex::default(),
            stops: AtomicU64::new(0),
            most,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().waiters.len()
    }

    /// All of them are told that there will be no turn.
    pub(crate) fn stop_all(&self) {
        let mut state = self.state.lock();
        self.stops.fetch_add(1, Ordering::SeqCst);
        let wakers = state.waiters.values_mut().filter_map(Option::take);
        let woken: Vec<Waker> = wakers.collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// One that is about to try, and is known by this turn.
    pub(super) fn waiter(&self, turn: u128) -> Waiter<'_> {
        Waiter {
            waiters: self,
            turn,
            stops: self.stops.load(Ordering::SeqCst),
            has_joined: AtomicBool::new(false),
        }
    }
}

impl Waiter<'_> {
    /// It is to wait: it is one of them from here on, if it was not before.
    ///
    /// # Errors
    /// [`DecisionError::QueueFull`].
    pub(super) fn join(&self) -> Result<(), DecisionError> {
        if self.has_joined.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (mut state, most) = (self.waiters.state.lock(), self.waiters.most);
        if state.waiters.len() >= most {
            return Err(DecisionError::QueueFull(most));
        }
        state.waiters.insert(self.turn, None);
        self.has_joined.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether it has had to wait.
    pub(super) fn has_joined(&self) -> bool {
        self.has_joined.load(Ordering::Relaxed)
    }

    /// What `turn` comes to, for one that has [joined](Self::join).
    ///
    /// # Errors
    /// [`DecisionError::Stopped`] if all were stopped since it came.
    pub(super) async fn wait<T>(&self, turn: impl Future<Output = T>) -> Result<T, DecisionError> {
        let mut turn = pin!(turn);
        poll_fn(|context| {
            if self.is_stopped(context.waker()) {
                return Poll::Ready(Err(DecisionError::Stopped));
            }
            turn.as_mut().poll(context).map(Ok)
        })
        .await
    }

    fn is_stopped(&self, waker: &Waker) -> bool {
        let mut state = self.waiters.state.lock();
        if let Some(known) = state.waiters.get_mut(&self.turn) {
            *known = Some(waker.clone());
        }
        self.waiters.stops.load(Ordering::SeqCst) != self.stops
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.has_joined.load(Ordering::Relaxed) {
            self.waiters.state.lock().waiters.remove(&self.turn);
        }
    }
}
