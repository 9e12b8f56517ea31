//! The limits that the rows use: so high that all is admitted, or so low that
//! nothing is.

use std::time::Duration;

/// `amount` for each `period`, and `burst` at once.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub amount: u64,
    pub period: Duration,
    pub burst: u64,
}

const HOUR: Duration = Duration::from_secs(3600);

/// A deep bucket that hardly refills: every decision is an admission and every
/// key keeps a state that must be remembered.
pub const DEEP: Quota = Quota {
    amount: 1000,
    period: HOUR,
    burst: 1_000_000_000,
};

/// A bucket that is full again before the next ask.
pub const FULL: Quota = Quota {
    amount: 1_000_000_000,
    period: Duration::from_secs(1),
    burst: 1_000_000_000,
};

/// The same with a prime, whose exact arithmetic nothing reduces. (Governor
/// rounds it to one a nanosecond.)
pub const PRIME: Quota = Quota {
    amount: 999_999_937,
    period: Duration::from_secs(1),
    burst: 999_999_937,
};

/// One an hour: refused, once the first has been taken.
pub const SPENT: Quota = Quota {
    amount: 1,
    period: HOUR,
    burst: 1,
};

impl Quota {
    /// The time that one unit takes to come back, rounded to nanoseconds as the
    /// peers round it.
    pub fn interval(self) -> Duration {
        let nanoseconds = self.period.as_nanos() / u128::from(self.amount);
        Duration::from_nanos(u64::try_from(nanoseconds.max(1)).expect("shorter than 500 years"))
    }

    pub fn burst_u32(self) -> std::num::NonZeroU32 {
        u32::try_from(self.burst)
            .ok()
            .and_then(std::num::NonZeroU32::new)
            .expect("a burst that fits 32 bits")
    }
}
