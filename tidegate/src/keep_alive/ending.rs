//! Who waits for the end of a lease.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::Timestamp;

use super::term::{End, Term};
use crate::clock::Sleep;

/// Ready when the term has ended: told so, or by the clock alone.
#[must_use = "it does not watch until it is polled"]
pub(crate) struct Ending {
    term: Arc<Term>,
    number: Option<u64>,
    sleep: Option<(Timestamp, Sleep)>,
}

impl Ending {
    pub(crate) fn of(term: &Arc<Term>) -> Self {
        Self {
            term: Arc::clone(term),
            number: None,
            sleep: None,
        }
    }

    /// Sleeps until the lease is not sure any more, as far as is known.
    fn sleep(&mut self, until: Timestamp) -> &mut Sleep {
        let clock = &self.term.clock;
        let sleep = match self.sleep.take() {
            Some((at, sleep)) if at == until => (at, sleep),
            _ => (until, Sleep::until(clock.clone(), until)),
        };
        &mut self.sleep.insert(sleep).1
    }
}

impl Future for Ending {
    type Output = End;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<End> {
        let this = &mut *self;
        this.term.watch(&mut this.number, context.waker());
        loop {
            // After the waker is there: an end that comes now is not missed.
            if let Some(end) = this.term.end() {
                return Poll::Ready(end);
            }
            let until = this.term.sure_until();
            if Pin::new(this.sleep(until)).poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.term.unwatch(number);
        }
    }
}
