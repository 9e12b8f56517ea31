//! Points at which a process kills itself, for tests: compiled in under the feature
//! `kill-points`, and else nothing.

/// The process may be killed here.
#[inline]
pub(crate) fn point() {
    #[cfg(feature = "kill-points")]
    armed::point();
}

#[cfg(feature = "kill-points")]
pub use armed::{arm, passed};

#[cfg(feature = "kill-points")]
mod armed {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    /// How many points were passed.
    static PASSED: AtomicU64 = AtomicU64::new(0);

    /// At which the process is killed.
    static LAST: AtomicU64 = AtomicU64::new(u64::MAX);

    /// The process is killed, as by `kill -9`, at the `nth` point from now.
    pub fn arm(nth: u64) {
        LAST.store(PASSED.load(Ordering::SeqCst) + nth, Ordering::SeqCst);
    }

    /// How many points this process has passed.
    pub fn passed() -> u64 {
        PASSED.load(Ordering::SeqCst)
    }

    pub(super) fn point() {
        let passed = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
        if passed >= LAST.load(Ordering::SeqCst) {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}
