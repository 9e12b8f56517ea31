//! Those of this process who wait in lines that the store keeps: how many they
//! are, and how all of them are told that there will be no turn.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

use tidegate_contract::sync::Mutex;

use crate::error::Error;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Crowd(Mutex<State>);

#[derive(Default)]
struct State {
    /// By turn; no waker until its future was polled.
    members: HashMap<u128, Option<Waker>>,
    /// How often all of them were stopped.
    stops: u64,
}

/// One of them, while it waits.
pub(super) struct Member<'c> {
    crowd: &'c Crowd,
    turn: u128,
    /// How often others were stopped before.
    stops: u64,
}

impl Crowd {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().members.len()
    }

    /// Everyone is told that there will be no turn.
    pub(crate) fn stop_all(&self) {
        let mut state = self.0.lock();
        state.stops += 1;
        let woken: Vec<_> = state
            .members
            .values_mut()
            .filter_map(Option::take)
            .collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// # Errors
    /// [`Error::QueueFull`].
    pub(super) fn join(&self, turn: u128, most: usize) -> Result<Member<'_>, Error> {
        let mut state = self.0.lock();
        if state.members.len() >= most {
            return Err(Error::QueueFull(most));
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
    /// What `turn` comes to, unless all are stopped before.
    pub(super) async fn unless_stopped<T>(
        &self,
        turn: impl Future<Output = T>,
    ) -> Result<T, Error> {
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
        let mut state = self.crowd.0.lock();
        let is_stopped = state.stops != self.stops;
        if let Some(known) = state.members.get_mut(&self.turn) {
            *known = Some(waker.clone());
        }
        is_stopped
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.crowd.0.lock().members.remove(&self.turn);
    }
}
