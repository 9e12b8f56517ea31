//! A future run to its end on a thread.

#[cfg(not(shuttle))]
pub(crate) use threads::block_on;

#[cfg(shuttle)]
pub(crate) use shuttle::future::block_on;

#[cfg(not(shuttle))]
mod threads {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::{self, Thread};

    /// Wakes a thread that is parked.
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Runs `future` to its end, parked while it waits.
    pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
        let mut future = pin!(future);
        let mut waker = None;
        loop {
            let waker =
                waker.get_or_insert_with(|| Waker::from(Arc::new(Unpark(thread::current()))));
            match future.as_mut().poll(&mut Context::from_waker(waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    }
}
