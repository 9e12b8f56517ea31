//! The clocks there are.

use std::fmt;
use std::sync::{Arc, Weak};

use tidegate_core::Timestamp;
use tidegate_store::{self as store, Alarm, TimerHandler};

use super::manual::{Manual, ManualClock};
use super::source::{Steady, TimeSource};
use super::system::System;
use super::timer::Timer;

/// What a set reads the time from. Cloning shares it.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System(&'static System),
    Manual(Arc<Manual>),
    Steady(Arc<Steady>),
}

impl Clock {
    /// The process's clock: microseconds since the Unix epoch, as of the start
    /// of the process, from there on by a monotonic counter.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System(System::shared()))
    }

    /// A clock of your own, made monotone.
    #[must_use]
    pub fn custom(source: impl TimeSource) -> Self {
        Self(Source::Steady(Steady::start(source)))
    }

    /// Now.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System(clock) => clock.now(),
            Source::Manual(clock) => clock.now(),
            Source::Steady(clock) => clock.now(),
        }
    }

    /// Takes an alarm back, if it has not rung yet. Nothing need ring for that.
    pub(crate) fn take_back(&self, alarm: Alarm) {
        match &self.0 {
            Source::System(clock) => clock.alarms().unset(alarm),
            Source::Manual(clock) => clock.timer().unset(alarm),
            Source::Steady(clock) => clock.timer().unset(alarm),
        }
    }

    /// What is to happen on this clock.
    pub(crate) fn timer(&self) -> &Timer {
        match &self.0 {
            Source::System(clock) => clock.timer(),
            Source::Manual(clock) => clock.timer(),
            Source::Steady(clock) => clock.timer(),
        }
    }
}

impl ManualClock {
    /// The clock, for a set to read.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(Arc::clone(&self.0)))
    }
}

/// For a queue in this process, which is rung by its callers' clock.
impl store::Timer for Clock {
    fn now(&self) -> Timestamp {
        Self::now(self)
    }

    fn set(&self, at: Timestamp, who: Weak<dyn TimerHandler>) -> Alarm {
        self.timer().set(at, who)
    }

    fn unset(&self, alarm: Alarm) {
        self.take_back(alarm);
    }
}

/// The clock, for a tier. A manual one has no thread that rings: what is due now is rung at once,
/// so that a tier goes on where its store answers later.
#[derive(Debug)]
pub(crate) struct TierTimer(pub(crate) Clock);

impl store::Timer for TierTimer {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn set(&self, at: Timestamp, who: Weak<dyn TimerHandler>) -> Alarm {
        let now = self.0.now();
        if !matches!(self.0.0, Source::Manual(_)) || at > now {
            return store::Timer::set(&self.0, at, who);
        }
        if let Some(who) = who.upgrade() {
            who.fire(now);
        }
        // No alarm that is set has this number.
        let number = u64::MAX;
        Alarm { at, number }
    }

    fn unset(&self, alarm: Alarm) {
        self.0.take_back(alarm);
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Source::System(_) => "system",
            Source::Manual(_) => "manual",
            Source::Steady(_) => "custom",
        };
        write!(f, "Clock({kind}, {})", self.now())
    }
}
