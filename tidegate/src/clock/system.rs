//! The process's clock: one for all sets, and one thread for its alarms,
//! started when the first request waits; in a forked child, which has no thread of its
//! parent's but the one that forked, once more.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{process, thread};

use tidegate_core::Timestamp;
use tidegate_store::sync::Mutex;

use super::timer::Timer;

/// Wall time at the start, a monotonic counter from there on.
pub(crate) struct System {
    counter: quanta::Clock,
    raw_start: u64,
    /// Wall time at the start, in microseconds since the Unix epoch.
    start: i64,
    timer: Timer,
    /// The process whose thread rings them.
    ringing: Mutex<Option<u32>>,
}

impl System {
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<System> = OnceLock::new();
        SHARED.get_or_init(Self::new)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the wall clock"
    )]
    fn new() -> Self {
        let counter = quanta::Clock::new();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since_epoch.map_or(0, |d| d.as_micros());
        Self {
            raw_start: counter.raw(),
            counter,
            start: i64::try_from(micros).unwrap_or(i64::MAX),
            timer: Timer::keeping_pace(),
            ringing: Mutex::new(None),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        let nanos = self
            .counter
            .delta_as_nanos(self.raw_start, self.counter.raw());
        Timestamp::from_micros(self.start + (nanos / 1_000) as i64)
    }

    /// The alarms, whether anything rings them or not.
    pub(crate) const fn alarms(&self) -> &Timer {
        &self.timer
    }

    /// The alarms; whoever sets one needs the thread that rings it.
    pub(crate) fn timer(&'static self) -> &'static Timer {
        let mut ringing = self.ringing.lock();
        let this = Some(process::id());
        if *ringing != this {
            let ringer = thread::Builder::new().name("tidegate-timer".into());
            let spawned = ringer.spawn(move || {
                loop {
                    self.timer.ring_due(self.now());
                    self.timer.sleep(self.now(), 1);
                }
            });
            spawned.expect("a process that can start no thread cannot wait");
            *ringing = this;
        }
        &self.timer
    }
}
