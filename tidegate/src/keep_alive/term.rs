//! For how long a lease is surely held: what its holder, its renewal and those who wait
//! for its loss share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::task::Waker;

use tidegate_core::{Span, Timestamp};
use tidegate_store::sync::Mutex;

use crate::clock::Clock;

/// Why a lease is lost that nobody renews.
const NOT_KEPT: &str = "it is not kept alive";

/// Why a lease is not held any more, though its holder has not ended it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// The store says that it has ended: it expired, or was released or revoked
    /// by its id.
    #[error("it has ended at the store: it expired, or an administrator revoked it")]
    Ended,
    /// The store does not know it: it ended long ago, or the store has lost what
    /// it held (a restart without persistence, a failover).
    #[error("the store does not know it: it ended long ago, or the store lost its state")]
    Forgotten,
    /// It was not renewed in time: from here on another may have what it held.
    #[error("it was not renewed in time: {0}")]
    NotRenewed(String),
}

/// See the [module](self).
pub(crate) struct Term {
    pub(super) clock: Clock,
    state: Mutex<State>,
}

struct State {
    /// What the store said last.
    expires_at: Timestamp,
    sure_until: Timestamp,
    end: Option<End>,
    /// Why it is not renewed now, if it is not.
    trouble: Option<Cow<'static, str>>,
    next_watcher: u64,
    watchers: BTreeMap<u64, Waker>,
}

/// How it ended. Nothing changes after that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// By its holder.
    ByHolder,
    Lost(Loss),
}

impl End {
    pub(crate) fn loss(self) -> Option<Loss> {
        match self {
            Self::Lost(loss) => Some(loss),
            Self::ByHolder => None,
        }
    }
}

impl Term {
    /// That of a lease that is not kept alive.
    pub(crate) fn new(clock: Clock, expires_at: Timestamp, sure_until: Timestamp) -> Self {
        let state = State {
            expires_at,
            sure_until,
            end: None,
            trouble: Some(NOT_KEPT.into()),
            next_watcher: 0,
            watchers: BTreeMap::new(),
        };
        Self {
            clock,
            state: Mutex::new(state),
        }
    }

    /// When it expires, as the store said last.
    pub(crate) fn expires_at(&self) -> Timestamp {
        self.state.lock().expires_at
    }

    /// Until when it is surely held, unless it ended.
    pub(crate) fn sure_until(&self) -> Timestamp {
        self.state.lock().sure_until
    }

    /// How it ended, if it has by now: whoever looks after the instant finds it
    /// lost, and so does everyone after him.
    pub(crate) fn end(&self) -> Option<End> {
        let mut state = self.state.lock();
        let now = self.clock.now();
        if state.end.is_some() || now < state.sure_until {
            return state.end.clone();
        }
        let why = state.trouble.take();
        let why = why.unwrap_or_else(|| "this process stood still".into());
        let end = End::Lost(Loss::NotRenewed(why.into_owned()));
        drop(state);
        self.finish(end.clone());
        Some(end)
    }

    /// It was renewed; too late if it has ended.
    pub(crate) fn extend(&self, expires_at: Timestamp, sure_until: Timestamp) {
        let mut state = self.state.lock();
        state.expires_at = state.expires_at.max(expires_at);
        state.sure_until = state.sure_until.max(sure_until);
        state.trouble = None;
    }

    /// From here on it may be renewed for less than it has left.
    pub(crate) fn shorten(&self, expires_at: Timestamp, sure_until: Timestamp) {
        let mut state = self.state.lock();
        state.expires_at = state.expires_at.min(expires_at);
        state.sure_until = state.sure_until.min(sure_until);
        // Who sleeps until the instant before sleeps for too long.
        let watchers = std::mem::take(&mut state.watchers);
        drop(state);
        watchers.into_values().for_each(Waker::wake);
    }

    /// Nobody renews it from here on, until it is kept alive.
    pub(crate) fn is_not_kept(&self) {
        self.note(NOT_KEPT);
    }

    /// Its renewal is under way.
    pub(super) fn renews(&self) {
        let mut state = self.state.lock();
        let trouble = &mut state.trouble;
        trouble.get_or_insert_with(|| "the store does not answer".into());
    }

    /// It could not be renewed, for now.
    pub(super) fn note(&self, trouble: impl Into<Cow<'static, str>>) {
        self.state.lock().trouble = Some(trouble.into());
    }

    /// It ended; what is said first holds.
    pub(crate) fn finish(&self, end: End) {
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
pub(crate) fn sure_until(until: Timestamp, length: Span, has_own_clock: bool) -> Timestamp {
    match has_own_clock {
        true => tidegate_core::sure_until(until, length),
        false => until,
    }
}
