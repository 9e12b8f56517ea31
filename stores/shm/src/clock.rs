//! The machine's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_store::core::Timestamp;

/// The time since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "this store has the machine's clock"
)]
pub(crate) fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// The same, as decisions have it.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_micros(i64::try_from(since_1970().as_micros()).unwrap_or(i64::MAX))
}
