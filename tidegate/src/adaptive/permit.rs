//! What is held, and how the work went.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Amount, Timestamp};

use super::sample::Sample;
use super::shared::Shared;
use crate::error::LeaseError;
use crate::lease::{Lease, Settlement};
use crate::outcome::Outcome;
use crate::pending::Pending;
use crate::request::Request;

/// What is held of an [`AdaptiveLimit`](super::AdaptiveLimit). Whoever holds it says how
/// the work went, which is a sample for the estimator, and gives back what was held.
///
/// Dropped without a word (the caller went away, or panicked) the work counts as ignored:
/// it says nothing of the upstream.
#[must_use = "what is held is given back, and the work counts as ignored, when it is dropped"]
pub struct AdaptivePermit {
    lease: Lease,
    shared: Arc<Shared>,
    began: Timestamp,
    /// What was in flight with it; nothing where that is not known.
    in_flight: Option<Amount>,
    signal: Option<Duration>,
}

impl AdaptivePermit {
    pub(super) fn new(mut lease: Lease, shared: Arc<Shared>) -> Self {
        let in_flight = lease.decision().and_then(|told| shared.in_flight(told));
        lease.set_outcome(Outcome::Ignored);
        shared.began();
        Self {
            lease,
            began: shared.set.inner().clock.now(),
            in_flight,
            shared,
            signal: None,
        }
    }

    /// How long it has been held, by the set's clock; the time that its request waited does
    /// not count.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let now = self.shared.set.inner().clock.now();
        now.since(self.began).as_duration()
    }

    /// The signal is `signal`: the time until the first token
    /// (`permit.measured(permit.elapsed())` when that comes), the time for each token, or what
    /// else [grows with load](super#which-signal). Not said, it is the time that the permit
    /// was held.
    pub fn measured(&mut self, signal: Duration) {
        self.signal = Some(signal);
    }

    /// The work was done.
    pub fn succeeded(self) {
        self.ended(Outcome::Succeeded);
    }

    /// The work says nothing of the upstream: it was cancelled, or failed for a reason of
    /// its own (a 400, say).
    pub fn ignored(self) {
        self.ended(Outcome::Ignored);
    }

    /// The work failed for want of the resource: a time-out, a 429, a 503. What its limits
    /// charge goes as [`Lease::fail`] says.
    pub fn dropped(self) {
        self.ended(Outcome::Dropped);
    }

    pub(crate) fn ended(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    /// Says how the work went, and reports what it has used of the other limits of the set;
    /// as [`Lease::settle`].
    ///
    /// # Errors
    /// As [`Lease::settle`].
    pub fn settle<'u>(
        mut self,
        outcome: Outcome,
        used: impl Into<Request<'u>>,
    ) -> Pending<impl Future<Output = Result<Settlement, LeaseError>> + Send> {
        let used = used.into();
        Pending::new(async move {
            self.end(outcome);
            self.lease.settle(used).await
        })
    }

    /// The lease that holds it.
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The lease that holds it, to adjust or to renew.
    pub const fn lease_mut(&mut self) -> &mut Lease {
        &mut self.lease
    }

    /// Counts the work. What is held is given back when the lease ends, after the
    /// capacity has changed.
    fn end(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Dropped => self.lease.fail(),
            outcome => self.lease.set_outcome(outcome),
        }
        let Some(in_flight) = self.in_flight.take() else {
            return;
        };
        self.shared.observe(&Sample {
            at: self.shared.set.inner().clock.now(),
            // Of what was dropped it tells when the work began, and nothing else.
            signal: self
                .signal
                .filter(|_| outcome != Outcome::Dropped)
                .unwrap_or_else(|| self.elapsed()),
            in_flight,
            outcome,
        });
    }
}

impl Drop for AdaptivePermit {
    fn drop(&mut self) {
        self.shared.ended();
    }
}

impl fmt::Debug for AdaptivePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptivePermit")
            .field("lease", &self.lease)
            .field("in_flight", &self.in_flight)
            .field("signal", &self.signal)
            .finish_non_exhaustive()
    }
}
