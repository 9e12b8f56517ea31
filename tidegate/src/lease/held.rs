//! A lease for as long as the work lasts: renewed while its holder has it, and lost in
//! time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Span, Timestamp};
use tidegate_store::OwnedKey;

use super::Lease;
use crate::error::{LeaseEnd, LeaseError};
use crate::keep_alive::{End, Ending, Kept, Loss, Renewal, Term, Way, sure_until};
use crate::pending::Pending;
use crate::set::lease_length;

impl Lease {
    /// Keeps it alive: renews it for `ttl` (1 ms to 400 days) now, and each time a third
    /// of that has passed, until it is settled, released, cancelled, detached or dropped.
    /// A thread of its set does so, one for all leases that are kept alive; a set without
    /// any has no such thread. Beyond a network a ttl of a second is short. If the process
    /// is killed, the lease expires within the ttl.
    ///
    /// While the store does not answer it is asked again, until the lease must have
    /// expired. Then it is lost: [`lost`](Self::lost) ends, and [`is_held`](Self::is_held)
    /// is false from then on. Stop the work then.
    ///
    /// A lease that is kept alive already is kept so with the new ttl from here on,
    /// whatever the answer.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Limit, LimitSet};
    ///
    /// let set = LimitSet::new([
    ///     Limit::concurrency("jobs", 2),
    ///     Limit::calls("starts", 9, Duration::from_secs(60)),
    /// ])?;
    /// if let Some(mut job) = set.try_acquire("nightly", ()).wait()?.granted() {
    ///     job.keep_alive(Duration::from_secs(30)).wait()?;
    ///     for step in 0..3 {
    ///         if !job.is_held() {
    ///             break; // stop: another may have begun
    ///         }
    ///         println!("step {step}, fence {:?}", job.fence());
    ///     }
    ///     job.release().wait()?;
    /// }
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`RequestError::LeaseLength`](crate::RequestError::LeaseLength); a lease that has ended
    /// or expired; the store; no thread ([`LeaseError::NoWorker`]). One that was not kept alive
    /// is not then, either.
    pub fn keep_alive(
        &mut self,
        ttl: Duration,
    ) -> Pending<impl Future<Output = Result<(), LeaseError>> + Send> {
        Pending::new(async move {
            let was_kept = self.way().is_some();
            self.check_live()?;
            self.shorten(ttl)?;
            if was_kept {
                self.keep(ttl, None)?;
            }
            let way = Way { ttl, longest: None };
            self.renewed(way).await?;
            match was_kept {
                true => Ok(()),
                false => self.keep(ttl, None),
            }
        })
    }

    /// Keeps it alive as [`keep_alive`](Self::keep_alive) does, but asks the store for nothing
    /// now: it is renewed for `ttl` (1 ms to 400 days; `None`: as long as its set has leases of its
    /// key last) when two thirds of that are left, at once if they are not. For a lease that was
    /// granted for this `ttl` just now. One of 400 days is not renewed: none lasts longer.
    ///
    /// # Errors
    /// [`RequestError::LeaseLength`](crate::RequestError::LeaseLength); a lease that has ended
    /// or expired; no thread ([`LeaseError::NoWorker`]).
    pub fn renew_when_due(&mut self, ttl: Option<Duration>) -> Result<(), LeaseError> {
        self.check_live()?;
        let ttl = match ttl {
            Some(ttl) => lease_length(ttl)?,
            None => self.set.lease_length(self.key.bytes()),
        };
        if self.is_expired() {
            let at = self.expires_at();
            return Err(LeaseError::Ended(LeaseEnd::Expired(at)));
        }
        match ttl < Span::LONGEST_PERIOD {
            true => self.keep(ttl.as_duration(), None),
            false => Ok(()),
        }
    }

    /// Moves the expiry to `ttl` from now; answers it. One that is [kept
    /// alive](Self::keep_alive) is kept so with this ttl from here on.
    ///
    /// # Errors
    /// A lease that has ended or expired; the store.
    pub fn renew(
        &mut self,
        ttl: Duration,
    ) -> Pending<impl Future<Output = Result<Timestamp, LeaseError>> + Send> {
        Pending::new(async move {
            if self.way().is_some() {
                self.keep_alive(ttl).await?;
                return Ok(self.expires_at());
            }
            self.check_live()?;
            self.shorten(ttl)?;
            let way = Way { ttl, longest: None };
            self.renewed(way).await?;
            self.term().is_not_kept();
            Ok(self.expires_at())
        })
    }

    /// Whether it is surely held now: it has not ended, and
    /// [`sure_until`](Self::sure_until) has not come. It reads the clock alone. Of a lease
    /// that is kept alive: once it is not held, it never is again.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match self.kept.get() {
            Some(kept) => kept.term.end().is_none(),
            None => self.ended.is_none() && self.set.clock.now() < self.sure_until(),
        }
    }

    /// Until when it is surely held if it is not renewed any more, by the clock of its
    /// set: its expiry, and a little less where the store has a clock of its own.
    #[must_use]
    pub fn sure_until(&self) -> Timestamp {
        if let Some(kept) = self.kept.get() {
            return kept.term.sure_until();
        }
        // So long have two clocks measured it.
        let length = self.expires_at.since(self.asked_at);
        sure_until(self.expires_at, length, self.set.has_own_clock)
    }

    /// For how long that is from now on.
    pub(crate) fn left(&self) -> Span {
        self.sure_until().since(self.set.clock.now())
    }

    /// Why it is lost, if it is: nothing while it is held, nor if its holder has ended it.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.term().end().and_then(End::loss)
    }

    /// Ends when it is lost, at the latest at the instant from which another may have
    /// what it holds; or (then `None`) when its holder ends it. It borrows nothing: another
    /// task or thread can wait for it. Kept alive, it is told of a revocation at the next
    /// renewal, within a third of the ttl; otherwise it is lost when it expires.
    pub fn lost(&self) -> Pending<impl Future<Output = Option<Loss>> + Send + use<>> {
        let ending = Ending::of(self.term());
        Pending::new(async move { ending.await.loss() })
    }

    /// Renews it now, in this way.
    async fn renewed(&self, way: Way) -> Result<(), LeaseError> {
        let renewed = self.renewal(way).renew().await;
        renewed.map(drop).map_err(|error| self.known(error))
    }

    /// How it ended, as it had expired, or was ended by another.
    pub(crate) fn ended_elsewhere(&self, has_expired: bool) -> LeaseEnd {
        match has_expired {
            true => LeaseEnd::Expired(self.expires_at()),
            false => LeaseEnd::By(self.set.clock.now()),
        }
    }

    /// Renews it now, as it is kept alive; `false` if it is lost.
    ///
    /// # Errors
    /// *Cannot tell*: it is held for as long as it says so.
    pub(crate) async fn confirm(&self) -> Result<bool, LeaseError> {
        let Some(way) = self.way().filter(|_| self.is_held()) else {
            return Ok(false);
        };
        match self.renewal(way).renew().await {
            Err(error) if self.is_held() => Err(error),
            _ => Ok(self.is_held()),
        }
    }

    /// Keeps it alive from here on, without a renewal now; not beyond `longest`.
    ///
    /// # Errors
    /// [`LeaseError::NoWorker`].
    pub(crate) fn keep(
        &mut self,
        ttl: Duration,
        longest: Option<Timestamp>,
    ) -> Result<(), LeaseError> {
        self.set.renewals().map_err(LeaseError::NoWorker)?;
        self.pause();
        self.term();
        if let Some(kept) = self.kept.get_mut() {
            kept.way = Some(Way { ttl, longest });
        }
        self.resume();
        Ok(())
    }

    /// No renewal begins from here on.
    #[inline]
    pub(super) fn pause(&mut self) {
        if let Some(kept) = self.kept.get_mut() {
            kept.task = None;
        }
    }

    /// It is renewed again, if it is kept alive.
    pub(super) fn resume(&mut self) {
        let Some(way) = self.way() else { return };
        let renewal = self.renewal(way);
        // The thread was there when it began to be kept.
        let task = self.set.renewals().ok();
        let task = task.map(|thread| thread.spawn(renewal));
        if let Some(kept) = self.kept.get_mut() {
            kept.task = task;
        }
    }

    /// How it is kept alive, if it is.
    fn way(&self) -> Option<Way> {
        self.kept.get().and_then(|kept| kept.way)
    }

    /// A renewal for `ttl` begins: it may leave less than there is.
    fn shorten(&self, ttl: Duration) -> Result<(), LeaseError> {
        let ttl = lease_length(ttl)?;
        let expires_at = self.set.clock.now() + ttl;
        let sure = sure_until(expires_at, ttl, self.set.has_own_clock);
        self.term().shorten(expires_at, sure);
        Ok(())
    }

    fn renewal(&self, way: Way) -> Renewal {
        Renewal {
            set: Arc::clone(&self.set),
            member: self.member.clone(),
            key: OwnedKey::new(self.key.bytes()),
            id: self.id(),
            ttl: way.ttl,
            longest: way.longest,
            term: Arc::clone(self.term()),
        }
    }

    fn term(&self) -> &Arc<Term> {
        let begin = || {
            let clock = self.set.clock.clone();
            let term = Term::new(clock, self.expires_at, self.sure_until());
            if self.ended.is_some() {
                term.finish(End::ByHolder);
            }
            Box::new(Kept {
                term: Arc::new(term),
                way: None,
                task: None,
            })
        };
        &self.kept.get_or_init(begin).term
    }
}
