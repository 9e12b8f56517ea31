//! An answer that comes later, waited for on a test's thread.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for it.
pub fn wait_for<F: Future>(later: F) -> F::Output {
    let mut later = pin!(later);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match later.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
