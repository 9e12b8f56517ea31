//! What is to happen at an instant, by the caller's clock.

use std::fmt::Debug;
use std::sync::{Arc, Weak};

use tidegate_core::Timestamp;

/// What an alarm fires.
pub trait TimerHandler: Send + Sync {
    /// The instant has come: it is `now`.
    fn fire(self: Arc<Self>, now: Timestamp);
}

/// Names one alarm, so that it can be taken back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Alarm {
    /// When it fires.
    pub at: Timestamp,
    /// Tells it from others at the same instant.
    pub number: u64,
}

/// The caller's clock, for a store whose queue is in the caller's process: it has no
/// clock of its own.
pub trait Timer: Send + Sync + Debug {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Fires `handler` at `at`, once, unless it is gone by then or takes it back.
    fn set(&self, at: Timestamp, handler: Weak<dyn TimerHandler>) -> Alarm;

    /// Takes an alarm back, if it has not fired yet.
    fn unset(&self, alarm: Alarm);
}
