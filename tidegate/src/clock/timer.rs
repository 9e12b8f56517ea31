//! What is to happen at an instant: alarms in order, and a thread that rings
//! them on clocks that run by themselves. It sleeps until the exact instant of
//! the next one; nothing here polls.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex as StdMutex, PoisonError, Weak};

use tidegate_core::Timestamp;
use tidegate_store::sync::Mutex;
use tidegate_store::{Alarm, TimerHandler};

/// Alarms by instant.
#[derive(Default)]
pub(crate) struct Timer {
    alarms: Mutex<Alarms>,
    /// Poked when an alarm comes before the thread that rings would look again.
    bell: Bell,
    /// The clock runs as the machine's does, so that whoever sleeps until an instant of it wakes in time.
    keeps_pace: bool,
}

#[derive(Default)]
struct Alarms {
    next_number: u64,
    by_instant: BTreeMap<Alarm, Weak<dyn TimerHandler>>,
    /// Until when the thread that rings sleeps, unless it is poked; `None`: for ever. It is
    /// not poked for an alarm that is taken back, so that this may be earlier than all.
    asleep_until: Option<Timestamp>,
}

/// Wakes the thread that rings, if there is one.
#[derive(Default)]
struct Bell {
    poked: StdMutex<bool>,
    changed: Condvar,
}

impl Timer {
    /// That of a clock that runs as the machine's does.
    pub(crate) fn keeping_pace() -> Self {
        Self {
            keeps_pace: true,
            ..Self::default()
        }
    }

    /// Rings `who` at `at`, unless it is gone by then or takes it back.
    pub(crate) fn set(&self, at: Timestamp, who: Weak<dyn TimerHandler>) -> Alarm {
        let mut alarms = self.alarms.lock();
        let alarm = Alarm {
            at,
            number: alarms.next_number,
        };
        alarms.next_number += 1;
        alarms.by_instant.insert(alarm, who);
        let first = alarms.by_instant.first_key_value().map(|(a, _)| *a) == Some(alarm);
        let is_overslept = alarms.asleep_until.is_none_or(|until| at < until);
        drop(alarms);
        if first && (is_overslept || !self.keeps_pace) {
            self.bell.poke();
        }
        alarm
    }

    /// Takes an alarm back.
    pub(crate) fn unset(&self, alarm: Alarm) {
        self.alarms.lock().by_instant.remove(&alarm);
    }

    /// When the next alarm is.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.alarms.lock().next()
    }

    /// Rings everyone who is due at `now`, in order.
    pub(crate) fn ring_due(&self, now: Timestamp) {
        while let Some(who) = self.take_due(now) {
            if let Some(who) = who.upgrade() {
                who.fire(now);
            }
        }
    }

    fn take_due(&self, now: Timestamp) -> Option<Weak<dyn TimerHandler>> {
        let mut alarms = self.alarms.lock();
        let entry = alarms.by_instant.first_entry()?;
        (entry.key().at <= now).then(|| entry.remove())
    }

    /// Sleeps until the next alarm or an earlier one; it is `now`, by a clock
    /// that runs so many times as fast as the machine's.
    pub(crate) fn sleep(&self, now: Timestamp, pace: u32) {
        let mut alarms = self.alarms.lock();
        alarms.asleep_until = alarms.next();
        let wait = alarms.next().map(|at| at.since(now).as_duration());
        drop(alarms);
        self.bell.wait(wait.map(|wait| wait / pace.max(1)));
    }

    /// Wakes the thread that rings: its clock is gone.
    pub(crate) fn close(&self) {
        self.bell.poke();
    }
}

impl Alarms {
    fn next(&self) -> Option<Timestamp> {
        self.by_instant.first_key_value().map(|(alarm, _)| alarm.at)
    }
}

impl Bell {
    fn poke(&self) {
        *self.poked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Until poked, or for `longest`. A poke that came before counts.
    fn wait(&self, longest: Option<std::time::Duration>) {
        let mut poked = self.poked.lock().unwrap_or_else(PoisonError::into_inner);
        if !*poked {
            poked = match longest {
                Some(longest) => {
                    let waited = self.changed.wait_timeout(poked, longest);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(poked);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
        *poked = false;
    }
}
