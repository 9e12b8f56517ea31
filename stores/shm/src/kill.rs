//! Points at which something befalls a process, for tests: compiled in under the feature
//! `kill-points`, and else nothing.

/// Something may befall the process here.
#[inline]
pub(crate) fn point() {
    #[cfg(feature = "kill-points")]
    armed::point();
}

#[cfg(feature = "kill-points")]
pub use armed::{arm, killed, passed};

#[cfg(feature = "kill-points")]
mod armed {
    use std::sync::atomic::{AtomicU64, Ordering};

    use parking_lot::Mutex;
    use rustix::process::{Signal, getpid, kill_process};

    /// How many points were passed.
    static PASSED: AtomicU64 = AtomicU64::new(0);

    /// At which it befalls the process.
    static LAST: AtomicU64 = AtomicU64::new(u64::MAX);

    /// What does.
    static WHAT: Mutex<fn()> = Mutex::new(killed);

    /// `what` befalls the process at the `nth` point from now, once.
    pub fn arm(nth: u64, what: fn()) {
        *WHAT.lock() = what;
        LAST.store(PASSED.load(Ordering::SeqCst) + nth, Ordering::SeqCst);
    }

    /// The process is killed, as by `kill -9`.
    pub fn killed() {
        let _ = kill_process(getpid(), Signal::KILL);
    }

    /// How many points this process has passed.
    pub fn passed() -> u64 {
        PASSED.load(Ordering::SeqCst)
    }

    pub(super) fn point() {
        let passed = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
        if passed >= LAST.load(Ordering::SeqCst)
            && LAST.swap(u64::MAX, Ordering::SeqCst) != u64::MAX
        {
            let what = *WHAT.lock();
            what();
        }
    }
}
