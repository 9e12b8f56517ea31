//! Those of this process who wait for their turn at a set: how many they are, and how
//! all of them are told that there will be none.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::Error;

/// See the [module](self).
pub(crate) struct Crowd {
    state: Mutex<State>,
    /// How often all of them were stopped.
    stops: AtomicU64,
    /// How many may wait.
    most: usize,
}

#[derive(Default)]
struct State {
    /// By turn; no waker until its future was polled.
    members: HashMap<u128, Option<Waker>, foldhash::fast::RandomState>,
}

/// One that may come to wait. It is one of the crowd from when it first waits on, also
/// while it asks again, until this is dropped.
pub(super) struct Visit<'c> {
    crowd: &'c Crowd,
    turn: u128,
    /// How often others were stopped before it asked.
    stops: u64,
    has_joined: AtomicBool,
}

impl Crowd {
    pub(super) fn new(most: usize) -> Self {
        Self {
            state: Mutex::default(),
            stops: AtomicU64::new(0),
            most,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().members.len()
    }

    /// Everyone is told that there will be no turn.
    pub(crate) fn stop_all(&self) {
        let mut state = self.state.lock();
        self.stops.fetch_add(1, Ordering::SeqCst);
        let wakers = state.members.values_mut().filter_map(Option::take);
        let woken: Vec<Waker> = wakers.collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// One is about to ask that is known by this turn.
    pub(super) fn visit(&self, turn: u128) -> Visit<'_> {
        Visit {
            crowd: self,
            turn,
            stops: self.stops.load(Ordering::SeqCst),
            has_joined: AtomicBool::new(false),
        }
    }
}

impl Visit<'_> {
    /// It is to wait: it is one of the crowd from here on, if it was not before.
    ///
    /// # Errors
    /// [`Error::QueueFull`].
    pub(super) fn join(&self) -> Result<(), Error> {
        if self.has_joined.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (mut state, most) = (self.crowd.state.lock(), self.crowd.most);
        if state.members.len() >= most {
            return Err(Error::QueueFull(most));
        }
        state.members.insert(self.turn, None);
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
    /// [`Error::Stopped`] if all were stopped since it came.
    pub(super) async fn wait<T>(&self, turn: impl Future<Output = T>) -> Result<T, Error> {
        let mut turn = pin!(turn);
        poll_fn(|context| {
            if self.is_stopped(context.waker()) {
                return Poll::Ready(Err(Error::Stopped));
            }
            turn.as_mut().poll(context).map(Ok)
        })
        .await
    }

    fn is_stopped(&self, waker: &Waker) -> bool {
        let mut state = self.crowd.state.lock();
        if let Some(known) = state.members.get_mut(&self.turn) {
            *known = Some(waker.clone());
        }
        self.crowd.stops.load(Ordering::SeqCst) != self.stops
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if self.has_joined.load(Ordering::Relaxed) {
            self.crowd.state.lock().members.remove(&self.turn);
        }
    }
}
