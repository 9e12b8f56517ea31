//! The requests of this process that wait for their turn at a set: how many they are, of all
//! keys and of one root's, and how all of them are told that there will be none.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicU64, Ordering};

use crate::error::DecisionError;

/// See the [module](self).
pub(crate) struct Waiters {
    state: Mutex<State>,
    /// How often all of them were stopped.
    stops: AtomicU64,
    /// How many may wait.
    most: usize,
    /// How many of them by keys of one root.
    most_per_root: usize,
}

#[derive(Default)]
struct State {
    /// By turn; no waker until its future was polled.
    waiters: HashMap<u128, Option<Waker>, foldhash::fast::RandomState>,
    /// How many of them there are by root; of none there is no entry.
    of_roots: HashMap<Arc<[u8]>, usize, foldhash::fast::RandomState>,
}

/// A request that may come to wait. It is one of them from when it first waits on, also
/// while it tries again, until this is dropped.
pub(super) struct Waiter<'w> {
    waiters: &'w Waiters,
    turn: u128,
    /// How often others were stopped before it came.
    stops: u64,
    /// The root of its key, once it is one of them.
    root: OnceLock<Arc<[u8]>>,
}

impl Waiters {
    pub(super) fn new(most: usize, most_per_root: usize) -> Self {
        Self {
            state: Mutex::default(),
            stops: AtomicU64::new(0),
            most,
            most_per_root,
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
            root: OnceLock::new(),
        }
    }
}

impl State {
    /// One more of this root, which is kept once, however many wait.
    fn add(&mut self, root: &[u8]) -> Arc<[u8]> {
        let known = self.of_roots.get_key_value(root).map(|(root, _)| root);
        let root = known.map_or_else(|| Arc::from(root), Arc::clone);
        *self.of_roots.entry(Arc::clone(&root)).or_default() += 1;
        root
    }

    fn remove(&mut self, turn: u128, root: &[u8]) {
        self.waiters.remove(&turn);
        if let Some(waiting) = self.of_roots.get_mut(root) {
            *waiting -= 1;
            if *waiting == 0 {
                self.of_roots.remove(root);
            }
        }
    }
}

impl Waiter<'_> {
    /// It is to wait, by a key of `root`: it is one of them from here on, if it was not before.
    ///
    /// # Errors
    /// [`DecisionError::QueueFull`], [`DecisionError::RootQueueFull`].
    pub(super) fn join(&self, root: &[u8]) -> Result<(), DecisionError> {
        if self.has_joined() {
            return Ok(());
        }
        let Waiters {
            most,
            most_per_root,
            ..
        } = *self.waiters;
        let mut state = self.waiters.state.lock();
        if state.waiters.len() >= most {
            return Err(DecisionError::QueueFull(most));
        }
        if state
            .of_roots
            .get(root)
            .is_some_and(|of| *of >= most_per_root)
        {
            return Err(DecisionError::RootQueueFull(most_per_root));
        }
        let root = state.add(root);
        if let Err(root) = self.root.set(root) {
            state.remove(self.turn, &root);
            return Ok(());
        }
        state.waiters.insert(self.turn, None);
        Ok(())
    }

    /// Whether it has had to wait.
    pub(super) fn has_joined(&self) -> bool {
        self.root.get().is_some()
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
        if let Some(root) = self.root.get() {
            self.waiters.state.lock().remove(self.turn, root);
        }
    }
}
