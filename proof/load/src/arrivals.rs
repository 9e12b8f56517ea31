//! When it is asked: on schedule, or as soon as there is room.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tokio::sync::Notify;

use crate::args::{Arrival, Load};
use crate::keys::Rng;
use crate::watch::{Alarm, Nanos, Watch, nanos};

/// The most that may be due and not sent: what comes beyond is counted.
const MOST_DUE: usize = 1_000_000;

/// So many asks late, those who send them come first.
const TOO_LATE: u32 = 256;

/// How long after the end answers are waited for.
pub const GRACE: Duration = Duration::from_secs(5);

/// One ask.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// When it was to be sent.
    pub due: Nanos,
    pub key: u32,
}

/// What is to be asked, by whichever connection has room.
pub struct Arrivals {
    watch: Watch,
    end: Nanos,
    rng: RefCell<Rng>,
    open: Option<Schedule>,
    /// How many may still be asked.
    left: Cell<u64>,
    /// Asks that were due and never sent.
    pub unsent: Cell<u64>,
}

struct Schedule {
    /// Nanoseconds between two asks, on the average.
    gap: f64,
    even: bool,
    due: RefCell<VecDeque<Ask>>,
    over: Cell<bool>,
    /// Rings for one of those who wait whenever something is due.
    bell: Notify,
}

impl Arrivals {
    pub fn new(load: &Load, watch: Watch) -> Self {
        let open = load.rate.map(|rate| Schedule {
            gap: 1e9 / rate.0,
            even: load.arrivals == Arrival::Even,
            due: RefCell::default(),
            over: Cell::new(false),
            bell: Notify::new(),
        });
        Self {
            end: watch.now().saturating_add(nanos(load.duration)),
            watch,
            rng: RefCell::new(Rng::new(load.seed, load.keys, load.distribution)),
            open,
            left: Cell::new(load.asks.unwrap_or(u64::MAX)),
            unsent: Cell::new(0),
        }
    }

    /// The next ask, if there is one now.
    pub fn take(&self, now: Nanos) -> Option<Ask> {
        match &self.open {
            Some(schedule) => {
                let ask = schedule.due.borrow_mut().pop_front();
                if ask.is_some() && self.is_over(now) {
                    // Nobody will ring for those who still wait.
                    schedule.bell.notify_waiters();
                }
                ask
            }
            None if now < self.end && self.count() => Some(Ask {
                due: now,
                key: self.rng.borrow_mut().key(),
            }),
            None => None,
        }
    }

    /// Takes one of the asks that are left.
    fn count(&self) -> bool {
        let left = self.left.get().checked_sub(1);
        left.map(|left| self.left.set(left)).is_some()
    }

    /// Whether another connection is to look for work, too.
    pub fn pass_on(&self) {
        if let Some(schedule) = &self.open
            && !schedule.due.borrow().is_empty()
        {
            schedule.bell.notify_one();
        }
    }

    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether nothing more will come.
    pub fn is_over(&self, now: Nanos) -> bool {
        match &self.open {
            Some(schedule) => schedule.over.get() && schedule.due.borrow().is_empty(),
            None => now >= self.end || self.left.get() == 0,
        }
    }

    /// Returns when there may be something to take.
    pub async fn some(&self) {
        match &self.open {
            Some(schedule) => schedule.bell.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Returns when every answer should have come.
    pub async fn overdue(&self) {
        let left = (self.end + nanos(GRACE)).saturating_sub(self.watch.now());
        tokio::time::sleep(Duration::from_nanos(left)).await;
    }

    /// Lets asks arrive until the end.
    pub async fn arrive(&self) -> io::Result<()> {
        let Some(schedule) = &self.open else {
            return Ok(());
        };
        let alarm = Alarm::new()?;
        let mut next = self.watch.now() as f64;
        let mut late = 0_u32;
        while next < self.end as f64 && self.count() {
            let now = self.watch.now();
            if next as Nanos > now {
                late = 0;
                alarm.after(next as Nanos - now).await?;
            } else if late >= TOO_LATE {
                // A rate beyond this machine: whoever sends must get a turn.
                late = 0;
                tokio::task::yield_now().await;
            }
            late += 1;
            self.put(schedule, next as Nanos);
            let distance = if schedule.even {
                1.0
            } else {
                self.rng.borrow_mut().distance()
            };
            next += schedule.gap * distance;
        }
        schedule.over.set(true);
        schedule.bell.notify_waiters();
        Ok(())
    }

    fn put(&self, schedule: &Schedule, due: Nanos) {
        let key = self.rng.borrow_mut().key();
        let mut asks = schedule.due.borrow_mut();
        if asks.len() >= MOST_DUE {
            self.unsent.set(self.unsent.get() + 1);
            return;
        }
        asks.push_back(Ask { due, key });
        schedule.bell.notify_one();
    }

    /// Gives up on what is due and was not sent.
    pub fn give_up(&self) {
        if let Some(schedule) = &self.open {
            let left = schedule.due.borrow_mut().drain(..).count();
            self.unsent.set(self.unsent.get() + left as u64);
        }
    }
}
