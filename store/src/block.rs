//! A future run to its end on a thread.

#[cfg(not(shuttle))]
pub use threads::{block_on, block_on_within};

#[cfg(shuttle)]
pub use explored::{block_on, block_on_within};

#[cfg(not(shuttle))]
mod threads {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::{self, Thread};
    use std::time::{Duration, Instant};

    /// Wakes a thread that is parked. Others may park and unpark it, too: hence the flag.
    struct Signal {
        thread: Thread,
        signalled: AtomicBool,
    }

    impl Wake for Signal {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            if !self.signalled.swap(true, Ordering::Release) {
                self.thread.unpark();
            }
        }
    }

    /// Runs `future` to its end; the calling thread is parked while it waits.
    pub fn block_on<F: Future>(future: F) -> F::Output {
        run(future, None).expect("a wait without end does not run out")
    }

    /// The same for `longest` at most; `None` if it has not ended by then. Dropped, the
    /// future gives back what it took.
    #[expect(
        clippy::disallowed_methods,
        reason = "a thread waits by real time, whatever clock decides"
    )]
    pub fn block_on_within<F: Future>(future: F, longest: Duration) -> Option<F::Output> {
        run(future, Instant::now().checked_add(longest))
    }

    #[expect(clippy::disallowed_methods, reason = "as above")]
    fn run<F: Future>(future: F, until: Option<Instant>) -> Option<F::Output> {
        let mut future = pin!(future);
        // Most need not wait, and then nothing is made for it.
        if let Poll::Ready(output) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return Some(output);
        }
        let signal = Arc::new(Signal {
            thread: thread::current(),
            signalled: AtomicBool::new(false),
        });
        let waker = Waker::from(Arc::clone(&signal));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(output);
            }
            while !signal.signalled.swap(false, Ordering::Acquire) {
                match until {
                    None => thread::park(),
                    Some(until) => {
                        let left = until.saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            return None;
                        }
                        thread::park_timeout(left);
                    }
                }
            }
        }
    }
}

/// Where every schedule is explored.
#[cfg(shuttle)]
mod explored {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    pub use shuttle::future::block_on;

    /// Time stands still there: what does not come at once does not come.
    #[expect(
        clippy::disallowed_methods,
        reason = "a thread waits by real time, whatever clock decides"
    )]
    pub fn block_on_within<F: Future>(future: F, longest: Duration) -> Option<F::Output> {
        let _ = longest;
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
}
