//! Virtual time for what runs on tokio and on Tidegate's clock at once.
//!
//! Time stands while anything can go on, also over sockets of this machine, and then moves to the next
//! instant that is known, or by a short step while calls are under way: a pause before a further
//! attempt is known to tokio alone.

use std::time::Duration;

use tidegate::{Clock, ManualClock};

use crate::course::BEGIN;

/// The longest step while a call is under way.
const STEP: Duration = Duration::from_millis(100);

/// After so many rounds of the runtime in which no call began, ended or came to the provider, nothing can
/// go on. From one of these to the next a call takes a dozen; what a busy kernel delivers later comes a
/// step later.
const ROUNDS: u32 = 32;

/// Both clocks.
pub struct Time {
    limits: ManualClock,
    now: Duration,
}

impl Time {
    /// Begins at [`BEGIN`], and stops tokio's clock: of a runtime of one thread.
    #[must_use]
    pub fn begin() -> Self {
        tokio::time::pause();
        Self {
            limits: ManualClock::starting_at(BEGIN),
            now: Duration::ZERO,
        }
    }

    /// For the gateway's limits.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.limits.clock()
    }

    /// How long it has been.
    #[must_use]
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// Lets everything go on that can, until `moved` stays as it is.
    pub async fn settle(&self, moved: impl Fn() -> usize) {
        let (mut before, mut rounds) = (moved(), 0);
        while rounds < ROUNDS {
            tokio::task::yield_now().await;
            let now = moved();
            rounds = if now == before { rounds + 1 } else { 0 };
            before = now;
        }
    }

    /// To `next`, or to somebody's turn at a limit before that; in short steps while `busy`.
    pub async fn advance(&mut self, next: Option<Duration>, busy: bool) {
        let turn = self.limits.next_alarm();
        let turn = turn.map(|at| at.since(BEGIN).as_duration());
        let step = busy.then_some(self.now + STEP);
        let to = [next, turn.filter(|_| busy), step];
        let Some(to) = to.into_iter().flatten().min() else {
            return;
        };
        let by = to.saturating_sub(self.now).max(Duration::from_micros(1));
        self.now += by;
        tokio::time::advance(by).await;
        self.limits.advance(by);
    }
}
