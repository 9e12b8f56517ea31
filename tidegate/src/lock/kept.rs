//! A lease that is renewed for as long as its holder has it.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Span, Timestamp};

use super::keeper::Kept;
use super::renewal::{Renewal, Renewed};
use super::tenure::{End, Loss, Tenure, sure_until};
use super::watch::Watch;
use crate::ask::Ask;
use crate::decision::Decision;
use crate::error::Error;
use crate::lease::{Lease, Settlement};
use crate::pending::Pending;

/// A lease that a thread of its set renews until this is dropped, which ends the lease
/// as dropping a [`Lease`] does. If the process is killed, the lease expires within the
/// ttl. [`Lease::keep_alive`] makes one.
///
/// The lease may be lost before it is dropped: [`lost`](Self::lost) ends then, and
/// [`is_held`](Self::is_held) is false from then on. Stop the work then.
///
/// It reads as the [`Lease`] that it keeps: its id, key, fence, and when it was granted.
/// (`expires_at` is what the store said when this was made;
/// [`sure_until`](Self::sure_until) is what holds now.)
#[must_use = "what is held is given back when this is dropped"]
pub struct KeptLease {
    // Declared first, dropped first: no renewal follows on an end.
    term: Term,
    lease: Lease,
    ttl: Duration,
}

/// Ends the tenure when its holder lets go, and the renewal.
struct Term {
    tenure: Arc<Tenure>,
    renewal: Option<Kept>,
}

impl Term {
    fn end(&mut self) {
        self.tenure.finish(End::GivenBack);
        self.renewal = None;
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.end();
    }
}

impl KeptLease {
    /// Keeps `lease`, which is surely held until then; its renewal begins.
    ///
    /// # Errors
    /// [`Error::NoWorker`].
    pub(super) fn begin(
        lease: Lease,
        ttl: Duration,
        sure_until: Timestamp,
        longest_hold: Option<Duration>,
    ) -> Result<Self, Error> {
        let keeper = lease.set().renewals()?;
        let clock = lease.set().clock.clone();
        let longest = longest_hold.map(|longest| clock.now() + Span::from(longest));
        let tenure = Arc::new(Tenure::new(clock, sure_until, longest));
        let renewal = keeper.spawn(Renewal::new(&lease, ttl, &tenure).run());
        let term = Term {
            renewal: Some(renewal),
            tenure,
        };
        Ok(Self { term, lease, ttl })
    }

    /// Whether it is surely held now. Once it is not, it never is again.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.term.tenure.end().is_none()
    }

    /// Until when it is surely held if it is not renewed any more, by the clock of its
    /// set.
    #[must_use]
    pub fn sure_until(&self) -> Timestamp {
        self.term.tenure.sure_until()
    }

    /// Why it is lost, if it is.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.watch().loss()
    }

    /// Ends when it is lost, at the latest at the instant from which another may have
    /// what it holds; or (then `None`) when its holder has ended it. A revocation is
    /// noticed at the next renewal, within a third of the ttl.
    pub fn lost(&self) -> Pending<impl Future<Output = Option<Loss>> + Send + use<>> {
        let watch = self.watch();
        Pending::new(async move { watch.lost().await })
    }

    /// An eye on it for others, threads among them.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.term.tenure))
    }

    /// Renews it now, before a step that matters; `false` if it is lost.
    ///
    /// # Errors
    /// *Cannot tell*: it is held for as long as [`is_held`](Self::is_held) says so.
    pub fn confirm(&self) -> Pending<impl Future<Output = Result<bool, Error>> + Send> {
        Pending::new(async move {
            if !self.is_held() {
                return Ok(false);
            }
            let renewal = Renewal::new(&self.lease, self.ttl, &self.term.tenure);
            Ok(renewal.renew().await? != Renewed::Lost && self.is_held())
        })
    }

    /// Changes how much is taken, as [`Lease::adjust`] does; it is renewed meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn adjust<'u>(
        &'u mut self,
        to: impl Into<Ask<'u>>,
    ) -> Pending<impl Future<Output = Result<Decision, Error>> + Send> {
        self.lease.adjust(to)
    }

    /// Reports what was really used, as [`Lease::settle`] does. It is renewed no more
    /// from here on, whatever the answer.
    ///
    /// # Errors
    /// As there.
    pub fn settle<'u>(
        &'u mut self,
        used: impl Into<Ask<'u>>,
    ) -> Pending<impl Future<Output = Result<Settlement, Error>> + Send> {
        self.term.end();
        self.lease.settle(used)
    }

    /// Gives back what is held, as [`Lease::release`] does. It is renewed no more from
    /// here on, whatever the answer.
    ///
    /// # Errors
    /// As there.
    pub fn release(&mut self) -> Pending<impl Future<Output = Result<Settlement, Error>> + Send> {
        self.term.end();
        self.lease.release()
    }

    /// The lease, renewed no more.
    pub fn into_lease(mut self) -> Lease {
        self.term.end();
        let sure_until = self.sure_until();
        let Self { mut lease, .. } = self;
        lease.lasts_until(sure_until);
        lease
    }
}

impl Lease {
    /// Keeps it: renews it for `ttl` (1 ms to 400 days) now, and each time a third of
    /// that has passed, until what this answers is dropped or ended. A thread of its set
    /// does so, one for all leases that are kept; a set without any has no such thread.
    /// Beyond a network a ttl of a second is short.
    ///
    /// While the store does not answer it is asked again, until the lease must have
    /// expired: then it is lost.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Limit, LimitSet};
    ///
    /// let set = LimitSet::new([
    ///     Limit::concurrency("jobs", 2),
    ///     Limit::calls("starts", 9, Duration::from_secs(60)),
    /// ])?;
    /// if let Some(lease) = set.try_acquire("nightly", ()).wait()?.granted() {
    ///     let mut job = lease.keep_alive(Duration::from_secs(30)).wait()?;
    ///     for step in 0..3 {
    ///         if !job.is_held() {
    ///             break; // stop: another may have begun
    ///         }
    ///         println!("step {step}, fence {}", job.fence());
    ///     }
    ///     job.release().wait()?;
    /// }
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LeaseLength`]; a lease that has ended or expired; the store; no thread
    /// ([`Error::NoWorker`]). The lease is dropped then: what it holds is given back.
    pub fn keep_alive(
        mut self,
        ttl: Duration,
    ) -> Pending<impl Future<Output = Result<KeptLease, Error>> + Send> {
        Pending::new(async move {
            // So it is known for how long two clocks have measured it.
            let until = self.renew(ttl).await?;
            let sure_until = sure_until(until, Span::from(ttl), self.set().has_own_clock);
            KeptLease::begin(self, ttl, sure_until, None)
        })
    }
}

impl Deref for KeptLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for KeptLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptLease")
            .field("lease", &self.lease)
            .field("sure_until", &self.sure_until())
            .field("loss", &self.loss())
            .finish()
    }
}
