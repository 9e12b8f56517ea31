//! Those of this process who wait for their turn at a set: how many they are, and how
//! all of them are told that there will be none.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

use tidegate_contract::sync::Mutex;

use crate::error::Error;

/// See the [module](self).
pub(crate) struct Crowd {
    state: Mutex<State>,
    /// How many may wait.
    most: usize,
}

#[derive(Default)]
struct State {
    /// By turn; no waker until its future was polled.
    members: HashMap<u128, Option<Waker>, foldhash::fast::RandomState>,
    /// How often all of them were stopped.
    stops: u64,
}

/// One of them, while it waits.
struct Member<'c> {
    crowd: &'c Crowd,
    turn: u128,
    /// How often others were stopped before.
    stops: u64,
}

impl Crowd {
    pub(super) fn new(most: usize) -> Self {
        Self {
            state: Mutex::default(),
            most,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().members.len()
    }

    /// Everyone is told that there will be no turn.
    pub(crate) fn stop_all(&self) {
        let mut state = self.state.lock();
        state.stops += 1;
        let wakers = state.members.values_mut().filter_map(Option::take);
        let woken: Vec<Waker> = wakers.collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// What `turn` comes to, for one that waits for it.
    ///
    /// # Errors
    /// [`Error::QueueFull`]; [`Error::Stopped`] if all are stopped before.
    pub(super) async fn wait<T>(
        &self,
        number: u128,
        turn: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let member = self.join(number)?;
        let mut turn = pin!(turn);
        poll_fn(|context| {
            if member.is_stopped(context.waker()) {
                return Poll::Ready(Err(Error::Stopped));
            }
            turn.as_mut().poll(context).map(Ok)
        })
        .await
    }

    fn join(&self, turn: u128) -> Result<Member<'_>, Error> {
        let mut state = self.state.lock();
        if state.members.len() >= self.most {
            return Err(Error::QueueFull(self.most));
        }
        state.members.insert(turn, None);
        Ok(Member {
            crowd: self,
            turn,
            stops: state.stops,
        })
    }
}

impl Member<'_> {
    fn is_stopped(&self, waker: &Waker) -> bool {
        let mut state = self.crowd.state.lock();
        let is_stopped = state.stops != self.stops;
        if let Some(known) = state.members.get_mut(&self.turn) {
            *known = Some(waker.clone());
        }
        is_stopped
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.crowd.state.lock().members.remove(&self.turn);
    }
}
