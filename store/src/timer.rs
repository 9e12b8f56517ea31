//! What is to happen at an instant, by the clock of whoever asks.

use std::fmt::Debug;
use std::sync::{Arc, Weak};

use tidegate_core::Timestamp;

/// Who is rung.
pub trait Ring: Send + Sync {
    /// The instant has come: it is `now`.
    fn ring(self: Arc<Self>, now: Timestamp);
}

/// Names one alarm, so that it can be taken back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Alarm {
    /// When it rings.
    pub at: Timestamp,
    /// Tells it from others at the same instant.
    pub number: u64,
}

/// The caller's clock, for a store whose queue is in the caller's process: it has no
/// clock of its own.
pub trait Timer: Send + Sync + Debug {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Rings `who` at `at`, once, unless it is gone by then or takes it back.
    fn set(&self, at: Timestamp, who: Weak<dyn Ring>) -> Alarm;

    /// Takes an alarm back, if it has not rung yet.
    fn unset(&self, alarm: Alarm);
}
