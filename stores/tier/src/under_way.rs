//! What was sent to the store and is not answered yet, and who waits until nothing is.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tidegate_store::sync::Mutex;

/// How many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    sent: u64,
    waiting: Vec<Waker>,
}

/// One of them, until this is dropped.
#[derive(Debug)]
pub(crate) struct Sent(UnderWay);

impl UnderWay {
    /// One more.
    pub(crate) fn begin(&self) -> Sent {
        self.0.lock().sent += 1;
        Sent(self.clone())
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.lock().sent
    }

    /// Ends when there is none.
    pub(crate) fn none(&self) -> impl Future<Output = ()> + Send + use<> {
        let all = self.clone();
        poll_fn(move |context| {
            let mut state = all.0.lock();
            if state.sent == 0 {
                return Poll::Ready(());
            }
            let waker = context.waker();
            if !state.waiting.iter().any(|one| one.will_wake(waker)) {
                state.waiting.push(waker.clone());
            }
            Poll::Pending
        })
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.sent -= 1;
        let woken = match state.sent {
            0 => std::mem::take(&mut state.waiting),
            _ => Vec::new(),
        };
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn who_waits_is_woken_when_the_last_is_answered() {
        let under_way = UnderWay::default();
        let (first, second) = (under_way.begin(), under_way.begin());
        let mut none = pin!(under_way.none());
        let mut look = || none.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(look().is_pending());
        drop(first);
        assert!(look().is_pending());
        drop(second);
        assert!(look().is_ready());
    }
}
