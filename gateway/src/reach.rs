//! Upstreams to which no connection came about: until when calls pass over them, and who tries one again.
//!
//! Of this process alone: another gateway may have a way where this one has none.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::Upstream;

/// For so long calls pass over an upstream that could not be reached; twice as long after each further try.
const SHORTEST: Duration = Duration::from_secs(5);

/// For no longer; and for so long one call tries it alone, if it finds nothing sooner.
const LONGEST: Duration = Duration::from_secs(60);

/// Whether each upstream can be reached, as far as calls have found.
pub struct Reach(Vec<(String, Mutex<State>)>);

#[derive(Default)]
struct State {
    /// How often it has changed: a connection that was begun before says nothing of it now.
    changes: u64,
    /// Unless connections come about.
    away: Option<Away>,
}

/// It could not be reached.
#[derive(Clone, Copy)]
struct Away {
    /// For how long it is passed over.
    pause: Duration,
    until: Instant,
}

/// A call that goes to an upstream. What it finds there first counts; dropped before, it has found nothing.
pub struct Trip<'r> {
    state: Option<&'r Mutex<State>>,
    /// As of when it finds something new if it cannot reach it; `None` if another tries that.
    begun: Option<u64>,
}

impl Reach {
    pub fn new(upstreams: &[Upstream]) -> Self {
        let one = |upstream: &Upstream| (upstream.name.clone(), Mutex::default());
        Self(upstreams.iter().map(one).collect())
    }

    /// Whether a call goes to another one, if it may.
    pub fn is_passed_over(&self, upstream: &str) -> bool {
        let away = self.of(upstream).and_then(|state| lock(state).away);
        away.is_some_and(|away| Instant::now() < away.until)
    }

    /// A call goes there, if to try it again.
    pub fn trip(&self, upstream: &str) -> Trip<'_> {
        let state = self.of(upstream);
        let begun = state.and_then(|state| lock(state).begin(Instant::now()));
        Trip { state, begun }
    }

    fn of(&self, upstream: &str) -> Option<&Mutex<State>> {
        let mut all = self.0.iter();
        all.find(|(name, _)| name == upstream).map(|(_, one)| one)
    }
}

impl Trip<'_> {
    /// Whether other calls go to another one, and the call itself, if it may.
    pub fn is_passed_over(&self) -> bool {
        self.state.is_some() && self.begun.is_none()
    }

    /// A connection has come about.
    pub fn arrived(&mut self) {
        if let Some(state) = self.state {
            lock(state).arrived();
        }
    }

    /// None has.
    pub fn failed(&mut self) {
        if let (Some(state), Some(begun)) = (self.state, self.begun.take()) {
            lock(state).failed(begun, Instant::now());
        }
    }
}

impl Drop for Trip<'_> {
    fn drop(&mut self) {
        if let (Some(state), Some(begun)) = (self.state, self.begun) {
            lock(state).given_up(begun, Instant::now());
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// As of when a call goes there; `None` if another tries it, or it is not to be tried yet.
    fn begin(&mut self, now: Instant) -> Option<u64> {
        match &mut self.away {
            Some(away) if now < away.until => return None,
            Some(away) => away.until = now + LONGEST,
            None => {}
        }
        Some(self.changes)
    }

    fn arrived(&mut self) {
        if self.away.take().is_some() {
            self.changes += 1;
        }
    }

    fn failed(&mut self, begun: u64, now: Instant) {
        if begun != self.changes {
            return;
        }
        let before = self.away.map(|away| away.pause * 2);
        let pause = before.unwrap_or(SHORTEST).min(LONGEST);
        self.away = Some(Away {
            pause,
            until: now + pause,
        });
        self.changes += 1;
    }

    /// It ended before it found anything: the next call may try.
    fn given_up(&mut self, begun: u64, now: Instant) {
        if let Some(away) = self.away.as_mut().filter(|_| begun == self.changes) {
            away.until = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(begun: Instant, seconds: u64) -> Instant {
        begun + Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn one_call_tries_it_after_a_pause_that_doubles_up_to_a_minute() {
        let (mut state, begun) = (State::default(), Instant::now());
        let first = state.begin(begun).unwrap();
        let beside = state.begin(begun).unwrap();
        state.failed(first, begun);
        // That began when nothing was known of it, and is no further try.
        state.failed(beside, begun);
        let mut now = 0;
        for pause in [5, 10, 20, 40, 60, 60] {
            assert_eq!(state.begin(at(begun, now + pause - 1)), None);
            now += pause;
            let tries = state.begin(at(begun, now)).expect("it is to be tried");
            assert_eq!(state.begin(at(begun, now)), None, "by one");
            state.failed(tries, at(begun, now));
        }
    }

    #[tokio::test]
    async fn it_is_as_before_once_a_connection_has_come_about() {
        let (mut state, begun) = (State::default(), Instant::now());
        for _ in 0..3 {
            let call = state.begin(begun).unwrap();
            state.failed(call, begun);
            let tries = state.begin(at(begun, 5)).unwrap();
            state.arrived();
            // It is answered, and its end says nothing.
            state.given_up(tries, at(begun, 5));
            state.failed(call, at(begun, 5));
            assert!(state.away.is_none(), "what began before says nothing");
        }
    }

    #[tokio::test]
    async fn a_try_that_finds_nothing_is_followed_by_another() {
        let (mut state, begun) = (State::default(), Instant::now());
        let call = state.begin(begun).unwrap();
        state.failed(call, begun);
        let tries = state.begin(at(begun, 5)).unwrap();
        state.given_up(call, at(begun, 5));
        assert_eq!(state.begin(at(begun, 6)), None, "it is still tried");
        state.given_up(tries, at(begun, 6));
        let tries = state.begin(at(begun, 6)).unwrap();
        assert_eq!(state.begin(at(begun, 65)), None);
        let further = state.begin(at(begun, 66)).unwrap();
        assert_eq!(tries, further, "whoever fails first counts");
        state.failed(tries, at(begun, 66));
        assert_eq!(state.away.unwrap().pause, Duration::from_secs(10));
    }
}
