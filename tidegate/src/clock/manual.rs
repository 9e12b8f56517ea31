//! Time that stands still until told otherwise.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Span, Timestamp};
use tidegate_store::sync::Mutex;

use super::source::Progress;
use super::timer::Timer;

/// A clock for tests and replays. Advancing it serves whoever waits, in order
/// and on the calling thread: no threads, no sleeping, the same every time.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Limit, LimitSet, ManualClock};
///
/// let time = ManualClock::default();
/// let set = LimitSet::builder()
///     .limit(Limit::calls("rps", 1, Duration::from_secs(1)))
///     .clock(time.clock())
///     .build()?;
/// assert!(set.check("alice", ()).wait()?.admitted());
/// assert!(!set.check("alice", ()).wait()?.admitted());
/// time.advance(Duration::from_secs(1));
/// assert!(set.check("alice", ()).wait()?.admitted());
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Clone)]
pub struct ManualClock(pub(super) Arc<Manual>);

pub(crate) struct Manual {
    time: Mutex<Time>,
    timer: Timer,
}

struct Time {
    /// What the clock on the wall says; it may be set back.
    wall: Timestamp,
    /// What limits see.
    progress: Progress,
}

impl ManualClock {
    /// A clock that stands at `start`.
    #[must_use]
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Arc::new(Manual {
            time: Mutex::new(Time {
                wall: start,
                progress: Progress::default(),
            }),
            timer: Timer::default(),
        }))
    }

    /// Moves time forward, stopping at each instant at which somebody's turn comes.
    pub fn advance(&self, by: Duration) {
        let target = self.0.time.lock().wall + Span::from(by);
        self.set(target);
    }

    /// Sets the clock on the wall. Forward: as [`advance`](Self::advance).
    /// Backward: limits go on from where they stood.
    pub fn set(&self, wall: Timestamp) {
        let target = self.0.seen_at(wall);
        while let Some(at) = self.next_alarm().filter(|&at| at <= target) {
            self.0.step_to(at);
            self.0.timer.ring_due(self.0.now());
        }
        self.0.time.lock().wall = wall;
        self.0.timer.ring_due(self.0.now());
    }

    /// When somebody's turn comes next, if nothing is given back before.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Timestamp> {
        self.0.timer.next()
    }
}

impl Default for ManualClock {
    /// Stands at noon of 1 January 2026, UTC.
    fn default() -> Self {
        Self::starting_at(Timestamp::from_micros(1_767_268_800_000_000))
    }
}

impl Manual {
    pub(crate) fn now(&self) -> Timestamp {
        let mut time = self.time.lock();
        let wall = time.wall;
        time.progress.reading(wall)
    }

    pub(crate) fn timer(&self) -> &Timer {
        &self.timer
    }

    /// What limits will see when the wall says `wall`.
    fn seen_at(&self, wall: Timestamp) -> Timestamp {
        self.time.lock().progress.preview(wall)
    }

    /// Moves the wall forward to where limits see `at`.
    fn step_to(&self, at: Timestamp) {
        let mut time = self.time.lock();
        let wall = time.wall;
        let ahead = at.since(time.progress.reading(wall));
        time.wall = wall + ahead;
    }
}
