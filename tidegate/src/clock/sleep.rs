//! A future that ends at an instant of a clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use tidegate_core::Timestamp;
use tidegate_store::sync::Mutex;
use tidegate_store::{Alarm, TimerHandler};

use super::Clock;

/// Ends at `until`, by whichever clock; dropped, it takes its alarm back.
#[must_use = "it does not sleep until it is polled"]
pub(crate) struct Sleep {
    clock: Clock,
    until: Timestamp,
    bell: Arc<Bell>,
    alarm: Option<Alarm>,
}

#[derive(Default)]
struct Bell(Mutex<Option<Waker>>);

impl TimerHandler for Bell {
    fn fire(self: Arc<Self>, _: Timestamp) {
        let waker = self.0.lock().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Sleep {
    pub(crate) fn until(clock: Clock, until: Timestamp) -> Self {
        Self {
            clock,
            until,
            bell: Arc::default(),
            alarm: None,
        }
    }

    fn set_alarm(&mut self) {
        let who: Weak<dyn TimerHandler> = Arc::<Bell>::downgrade(&self.bell);
        let (clock, until) = (&self.clock, self.until);
        self.alarm
            .get_or_insert_with(|| clock.timer().set(until, who));
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.until {
            return Poll::Ready(());
        }
        *self.bell.0.lock() = Some(context.waker().clone());
        self.set_alarm();
        // The instant may have come before the alarm was set, or rung before
        // the waker was there.
        match self.clock.now() >= self.until {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm {
            self.clock.take_back(alarm);
        }
    }
}
