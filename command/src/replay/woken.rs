//! Wakers that write down who was woken, in order; nothing runs by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The requests that were woken and not yet served.
#[derive(Debug, Default)]
pub struct Woken(Mutex<VecDeque<usize>>);

struct Bell {
    number: usize,
    woken: Arc<Woken>,
}

/// A waker that writes down `number`.
pub fn waker(number: usize, woken: &Arc<Woken>) -> Waker {
    Waker::from(Arc::new(Bell {
        number,
        woken: Arc::clone(woken),
    }))
}

impl Woken {
    /// Who was woken first.
    pub fn take(&self) -> Option<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let mut woken = self.woken.0.lock().unwrap_or_else(PoisonError::into_inner);
        woken.push_back(self.number);
    }
}
