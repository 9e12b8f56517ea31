//! The machine's clock, and the one instant of a batch.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_store::core::Timestamp;

/// The time since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "this store has the machine's clock"
)]
pub(crate) fn since_1970() -> Duration {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    #[cfg(test)]
    let now = moved(now);
    now
}

#[cfg(test)]
thread_local! {
    /// By how many seconds a test's thread has set its clock forward.
    static FORWARD: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
pub(crate) fn set_forward(seconds: i64) {
    FORWARD.set(seconds);
}

#[cfg(test)]
fn moved(now: Duration) -> Duration {
    let (forward, by) = (
        FORWARD.get(),
        Duration::from_secs(FORWARD.get().unsigned_abs()),
    );
    match forward < 0 {
        true => now - by,
        false => now + by,
    }
}

/// The same, as decisions have it.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_micros(i64::try_from(since_1970().as_micros()).unwrap_or(i64::MAX))
}

/// Which instant decides in the batch that this thread executes.
#[derive(Clone, Copy)]
enum Batch {
    /// There is none.
    None,
    /// It is for the first step to say.
    Begun,
    At(Timestamp),
}

thread_local! {
    static BATCH: Cell<Batch> = const { Cell::new(Batch::None) };
}

/// Executes a batch: all of it is decided at one instant.
pub(crate) fn in_batch<T>(batch: impl FnOnce() -> T) -> T {
    /// Also where it panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            BATCH.set(Batch::None);
        }
    }
    let _end = End;
    BATCH.set(Batch::Begun);
    batch()
}

/// The instant of the batch that this thread executes, which `now` says in its first step; else
/// what that says.
pub(crate) fn of_batch(now: impl FnOnce() -> Timestamp) -> Timestamp {
    match BATCH.get() {
        Batch::None => now(),
        Batch::At(instant) => instant,
        Batch::Begun => {
            let instant = now();
            BATCH.set(Batch::At(instant));
            instant
        }
    }
}
