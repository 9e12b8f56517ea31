//! Upstreams that fail, as the log tells of them: when it begins, and when it is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use crate::settings::Upstream;

/// Of one upstream the log has a line in that time at most, however often it fails and recovers.
const QUIET: Duration = Duration::from_secs(60);

/// How each upstream answers.
pub struct Health(Vec<(String, Answering)>);

/// How one upstream answers.
#[derive(Default)]
struct Answering {
    /// Whether the log has said that it fails: who answers well looks at nothing else.
    is_told: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many calls it has failed since it was told last that it answers.
    calls: u64,
    /// Whether it was told last that it fails.
    is_told: bool,
    /// When something was told last.
    at: Option<Instant>,
}

impl Health {
    pub fn new(upstreams: &[Upstream]) -> Self {
        let one = |upstream: &Upstream| (upstream.name.clone(), Answering::default());
        Self(upstreams.iter().map(one).collect())
    }

    fn of(&self, upstream: &str) -> Option<&Answering> {
        let mut all = self.0.iter();
        all.find(|(name, _)| name == upstream).map(|(_, one)| one)
    }

    /// It has failed a call, for this reason.
    pub fn failed(&self, upstream: &str, why: &str) {
        let told = self.of(upstream).and_then(Answering::failed);
        if let Some(calls) = told {
            warn!(
                upstream,
                why, calls, "an upstream fails; calls go to other members, if the policy is a pool"
            );
        }
    }

    /// It has answered a call, if only with a refusal.
    pub fn answered(&self, upstream: &str) {
        let told = self.of(upstream).and_then(Answering::answered);
        if let Some(calls) = told {
            info!(upstream, calls, "an upstream answers again");
        }
    }
}

impl Answering {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls it has failed, if that is to be told.
    fn failed(&self) -> Option<u64> {
        let mut state = self.state();
        let told = state.failed(Instant::now());
        self.is_told.store(state.is_told, Ordering::Release);
        told
    }

    fn answered(&self) -> Option<u64> {
        if !self.is_told.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.state();
        let told = state.answered(Instant::now());
        self.is_told.store(state.is_told, Ordering::Release);
        told
    }
}

impl State {
    fn may_tell(&self, now: Instant) -> bool {
        self.at
            .is_none_or(|at| now.saturating_duration_since(at) >= QUIET)
    }

    fn failed(&mut self, now: Instant) -> Option<u64> {
        self.calls = self.calls.saturating_add(1);
        if !self.may_tell(now) {
            return None;
        }
        (self.is_told, self.at) = (true, Some(now));
        Some(self.calls)
    }

    fn answered(&mut self, now: Instant) -> Option<u64> {
        if !self.is_told || !self.may_tell(now) {
            return None;
        }
        (self.is_told, self.at) = (false, Some(now));
        Some(std::mem::take(&mut self.calls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_log_says_when_an_upstream_fails_and_when_no_more_once_a_minute_at_most() {
        let (mut state, begun) = (State::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(state.answered(at(0)), None);
        assert_eq!(state.failed(at(0)), Some(1));
        assert_eq!(state.failed(at(1)), None);
        assert_eq!(state.answered(at(59)), None, "a minute has one line");
        assert_eq!(state.failed(at(60)), Some(3), "it still fails");
        assert_eq!(state.answered(at(120)), Some(3));
        assert_eq!(state.answered(at(900)), None, "it is told once");
        assert_eq!(state.failed(at(901)), Some(1));
    }
}
