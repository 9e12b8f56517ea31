//! For how long a permit is surely held: what its holder, its watches and its
//! renewal share.

use std::collections::HashMap;
use std::task::Waker;

use tidegate_core::{Span, Timestamp};
use tidegate_store::sync::Mutex;

use crate::clock::Clock;

/// Two clocks agree on a length of time to one part in this many.
pub const DRIFT: u64 = 1_000;

/// Why a permit is not held any more, though nobody gave it back.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// The store says that it has ended: it expired, or was released or revoked
    /// by its id.
    #[error("it has ended at the store: it expired, or somebody revoked it")]
    Ended,
    /// The store does not know it: it ended long ago, or the store has lost what
    /// it held (a restart without persistence, a failover).
    #[error("the store does not know it: it ended long ago, or the store lost its state")]
    Forgotten,
    /// It was not renewed in time: from here on another may have it.
    #[error("it was not renewed in time: {0}")]
    NotRenewed(String),
}

/// See the [module](self).
pub(super) struct Tenure {
    pub(super) clock: Clock,
    /// It is not renewed beyond this.
    pub(super) longest: Option<Timestamp>,
    state: Mutex<State>,
}

struct State {
    sure_until: Timestamp,
    end: Option<End>,
    /// Why the last renewal failed, if it did.
    trouble: Option<String>,
    next_watcher: u64,
    watchers: HashMap<u64, Waker>,
}

/// How it ended. Nothing changes after that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Its holder gave it back.
    GivenBack,
    Lost(Loss),
}

impl Tenure {
    pub(super) fn new(clock: Clock, sure_until: Timestamp, longest: Option<Timestamp>) -> Self {
        let state = State {
            sure_until,
            end: None,
            trouble: None,
            next_watcher: 0,
            watchers: HashMap::new(),
        };
        Self {
            clock,
            longest,
            state: Mutex::new(state),
        }
    }

    /// Until when it is surely held, unless it ended.
    pub(super) fn sure_until(&self) -> Timestamp {
        self.state.lock().sure_until
    }

    /// How it ended, if it has by now: whoever looks after the instant finds it
    /// lost, and so does everyone after him.
    pub(super) fn end(&self) -> Option<End> {
        let mut state = self.state.lock();
        let now = self.clock.now();
        if state.end.is_some() || now < state.sure_until {
            return state.end.clone();
        }
        let none = || "this process stood still".to_owned();
        let why = state.trouble.take().unwrap_or_else(none);
        let end = End::Lost(Loss::NotRenewed(why));
        drop(state);
        self.finish(end.clone());
        Some(end)
    }

    /// It was renewed; too late if it has ended.
    pub(super) fn extend(&self, sure_until: Timestamp) {
        let mut state = self.state.lock();
        state.sure_until = state.sure_until.max(sure_until);
        state.trouble = None;
    }

    /// Its renewal is under way.
    pub(super) fn ask(&self) {
        let silence = || "the store does not answer".to_owned();
        self.state.lock().trouble.get_or_insert_with(silence);
    }

    /// It could not be renewed, for now.
    pub(super) fn note(&self, trouble: String) {
        self.state.lock().trouble = Some(trouble);
    }

    /// It ended; the first word holds.
    pub(super) fn finish(&self, end: End) {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        let watchers = std::mem::take(&mut state.watchers);
        drop(state);
        watchers.into_values().for_each(Waker::wake);
    }

    /// Wakes `waker` when it ends, as `number` (a new one if there is none).
    pub(super) fn watch(&self, number: &mut Option<u64>, waker: &Waker) {
        let mut state = self.state.lock();
        let next = &mut state.next_watcher;
        let number = *number.get_or_insert_with(|| {
            *next += 1;
            *next
        });
        state.watchers.insert(number, waker.clone());
    }

    pub(super) fn unwatch(&self, number: u64) {
        self.state.lock().watchers.remove(&number);
    }
}

/// Until when a lease that expires at `until` is surely held, where two clocks
/// have measured `length`.
pub(super) fn sure_until(until: Timestamp, length: Span, has_own_clock: bool) -> Timestamp {
    match has_own_clock {
        true => until - Span::from_micros(length.as_micros() / DRIFT),
        false => until,
    }
}
