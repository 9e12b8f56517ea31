//! What tests of waiting share: a future polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tidegate::{Admission, DecisionError, Lease};

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A future polled by hand, and whether it was woken since.
pub struct Polled<'a> {
    future: Pin<Box<dyn Future<Output = Result<Admission, DecisionError>> + 'a>>,
    flag: Arc<Flag>,
}

impl<'a> Polled<'a> {
    pub fn new(future: impl Future<Output = Result<Admission, DecisionError>> + 'a) -> Self {
        Self {
            future: Box::pin(future),
            flag: Arc::new(Flag(AtomicBool::new(false))),
        }
    }

    /// Polled once, and it waits.
    pub fn waiting(future: impl Future<Output = Result<Admission, DecisionError>> + 'a) -> Self {
        let mut polled = Self::new(future);
        assert!(polled.poll().is_none(), "it was to wait");
        polled
    }

    pub fn poll(&mut self) -> Option<Result<Admission, DecisionError>> {
        let waker = Waker::from(Arc::clone(&self.flag));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    pub fn granted(&mut self) -> Option<Lease> {
        self.poll()
            .and_then(|answer| answer.expect("no error").granted())
    }

    pub fn woken(&self) -> bool {
        self.flag.0.swap(false, Ordering::SeqCst)
    }
}
