//! A future run to its end on a thread.

use std::future::Future;
use std::time::Duration;

#[cfg(shuttle)]
pub(crate) use shuttle::future::block_on;

/// Runs `future` to its end, parked while it waits.
#[cfg(not(shuttle))]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    threads::run(future, |_| {
        std::thread::park();
        true
    })
    .expect("a park without end does not run out")
}

/// Runs `future` to its end, but no longer than this; dropped, it gives back
/// what it took.
#[cfg(not(shuttle))]
pub(crate) fn block_on_within<F: Future>(future: F, longest: Duration) -> Option<F::Output> {
    threads::run(future, |parked| {
        let left = longest.saturating_sub(parked);
        std::thread::park_timeout(left);
        !left.is_zero()
    })
}

/// Time stands still there: what does not come at once does not come.
#[cfg(shuttle)]
pub(crate) fn block_on_within<F: Future>(future: F, longest: Duration) -> Option<F::Output> {
    use std::task::{Context, Poll, Waker};
    let _ = longest;
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[cfg(not(shuttle))]
mod threads {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::{self, Thread};
    use std::time::Duration;

    use crate::clock::Clock;

    /// Wakes a thread that is parked.
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Polls `future`; while it is pending, `park` is told how long it has been
    /// so and parks, or says that this was the last time.
    pub(super) fn run<F: Future>(future: F, park: impl Fn(Duration) -> bool) -> Option<F::Output> {
        let mut future = pin!(future);
        // Most need not wait, and then nothing is made for it.
        if let Poll::Ready(output) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return Some(output);
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let since = Clock::system().now();
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(output);
            }
            if !park(Clock::system().now().since(since).as_duration()) {
                return None;
            }
        }
    }
}
