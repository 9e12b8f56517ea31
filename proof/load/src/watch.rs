//! The generator's clock, and its alarm.
//!
//! The runtime's own timers are a millisecond coarse: an ask that is sent so late
//! would be charged to the server. The kernel's are not.

use std::io;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Nanoseconds since the run began.
pub type Nanos = u64;

/// A clock that begins with the run.
#[derive(Clone, Copy, Debug)]
pub struct Watch(Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "what is measured is time itself")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "what is measured is time itself")]
    pub fn now(&self) -> Nanos {
        nanos(self.0.elapsed())
    }
}

/// A length of time in nanoseconds.
pub fn nanos(length: Duration) -> Nanos {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

/// Rings after some nanoseconds.
pub struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(unsafe_code, reason = "the runtime has no other way to a descriptor")]
        // SAFETY: an `OwnedFd` names one descriptor, which it closes when dropped;
        // that is after the `AsyncFd`, which owns it, has taken it from the reactor.
        let registered = unsafe { AsyncFd::register(timer) };
        registered.map(Self).map_err(Into::into)
    }

    /// Returns after so many nanoseconds.
    pub async fn after(&self, nanos: Nanos) -> io::Result<()> {
        let seconds = i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX);
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: seconds,
                // A timer of zero would be none.
                tv_nsec: (nanos % 1_000_000_000).max(1) as _,
            },
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        let mut rung = self.0.readable().await?;
        // Setting it again takes back that it has rung.
        rung.clear_ready();
        Ok(())
    }
}
