//! Whoever is to stop when a permit is lost.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::Timestamp;

use super::tenure::{End, Loss, Tenure};
use crate::clock::Sleep;
use tidegate_store::{block_on, block_on_within};

/// An eye on a permit, for whoever does its work: another task, another thread.
/// It holds nothing, and may outlive the permit.
#[derive(Clone)]
pub struct Watch(pub(super) Arc<Tenure>);

impl Watch {
    /// Whether the permit is surely held now. Once it is not, it never is again.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.0.end().is_none()
    }

    /// Until when it is surely held if it is not renewed any more, by the clock
    /// of its semaphore.
    #[must_use]
    pub fn sure_until(&self) -> Timestamp {
        self.0.sure_until()
    }

    /// Why it is lost, if it is.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.0.end().and_then(lost)
    }

    /// Waits until the permit is lost, or (then `None`) given back. The thread is
    /// parked.
    #[must_use]
    pub fn wait(&self) -> Option<Loss> {
        block_on(self.lost())
    }

    /// As [`wait`](Self::wait), but no longer than this: then the answer is an
    /// error, and the permit was held to the end of it.
    ///
    /// # Errors
    /// It is still held.
    pub fn wait_within(&self, longest: Duration) -> Result<Option<Loss>, StillHeld> {
        block_on_within(self.lost(), longest).ok_or(StillHeld(()))
    }

    /// Ends when the permit is lost, at the latest at the instant from which
    /// another may have it; or (then `None`) when it is given back.
    pub async fn lost(&self) -> Option<Loss> {
        lost(Ending::of(&self.0).await)
    }
}

/// The permit was neither lost nor given back in that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the permit is still held")]
pub struct StillHeld(());

fn lost(end: End) -> Option<Loss> {
    match end {
        End::Lost(loss) => Some(loss),
        End::GivenBack => None,
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("sure_until", &self.sure_until())
            .field("loss", &self.loss())
            .finish()
    }
}

/// Ready when the tenure has ended: told so, or by the clock alone.
#[must_use = "nobody watches until it is polled"]
pub(super) struct Ending {
    tenure: Arc<Tenure>,
    number: Option<u64>,
    sleep: Option<(Timestamp, Sleep)>,
}

impl Ending {
    pub(super) fn of(tenure: &Arc<Tenure>) -> Self {
        Self {
            tenure: Arc::clone(tenure),
            number: None,
            sleep: None,
        }
    }

    /// Sleeps until the permit is not sure any more, as far as is known.
    fn sleep(&mut self, until: Timestamp) -> &mut Sleep {
        let clock = &self.tenure.clock;
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
        this.tenure.watch(&mut this.number, context.waker());
        loop {
            // After the waker is there: an end that comes now is not missed.
            if let Some(end) = this.tenure.end() {
                return Poll::Ready(end);
            }
            let until = this.tenure.sure_until();
            if Pin::new(this.sleep(until)).poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.tenure.unwatch(number);
        }
    }
}
