//! A clock of the user's own, made monotone.

use std::sync::{Arc, Once, Weak};
use std::thread;

use tidegate_core::{Span, Timestamp};
use tidegate_store::sync::Mutex;

use super::timer::Timer;

/// Tells the time. It may step back; the limits will not see it.
pub trait TimeSource: Send + Sync + 'static {
    /// Now, since the Unix epoch.
    fn now(&self) -> Timestamp;

    /// How many of its seconds pass in one of the machine's, by which waits
    /// are slept: 1, but for a demonstration that hurries.
    fn speed(&self) -> u32 {
        1
    }
}

impl<F: Fn() -> Timestamp + Send + Sync + 'static> TimeSource for F {
    fn now(&self) -> Timestamp {
        self()
    }
}

/// A source whose steps back are taken out.
pub(crate) struct Steady {
    source: Box<dyn TimeSource>,
    progress: Mutex<Progress>,
    timer: Arc<Timer>,
    ringing: Once,
    this: Weak<Self>,
}

/// What was last read, and how far the source has fallen behind.
#[derive(Default)]
pub(crate) struct Progress {
    latest: Option<Timestamp>,
    behind: Span,
}

impl Progress {
    /// What [`reading`](Self::reading) would say, without taking note.
    pub(crate) fn preview(&self, raw: Timestamp) -> Timestamp {
        let shifted = raw + self.behind;
        self.latest.map_or(shifted, |latest| shifted.max(latest))
    }

    /// The monotone reading for a source's `raw` one: after a step back, time
    /// goes on from where it stood.
    pub(crate) fn reading(&mut self, raw: Timestamp) -> Timestamp {
        let now = self.preview(raw);
        self.behind = now.since(raw);
        self.latest = Some(now);
        now
    }
}

impl Steady {
    pub(crate) fn start(source: impl TimeSource) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            source: Box::new(source),
            progress: Mutex::default(),
            timer: Arc::default(),
            ringing: Once::new(),
            this: Weak::clone(this),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        let mut progress = self.progress.lock();
        progress.reading(self.source.now())
    }

    pub(crate) fn timer(&self) -> &Timer {
        self.ringing.call_once(|| {
            let (this, timer) = (Weak::clone(&self.this), Arc::clone(&self.timer));
            let ringer = thread::Builder::new().name("tidegate-timer".into());
            let spawned = ringer.spawn(move || {
                // Asleep, it holds no clock, so that the last set to drop ends it.
                while let Some(now) = this.upgrade().map(|clock| clock.now()) {
                    timer.ring_due(now);
                    let clock = this.upgrade();
                    let pace = clock.as_ref().map_or(1, |clock| clock.source.speed());
                    let now = clock.map_or(now, |clock| clock.now());
                    timer.sleep(now, pace);
                }
            });
            spawned.expect("a process that can start no thread cannot wait");
        });
        &self.timer
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        self.timer.close();
    }
}
