//! One policy's verbs, counted, with its failure mode.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::StoreError;
use tidegate_core::{Forecast, Span, Timestamp, Verdict};

use super::access::Caller;
use super::aside::{aside, step_aside};
use super::audit;
use super::denials::Denials;
use super::error::{GateError, Kind};
use super::meters::Meters;
use crate::ask::Ask;
use crate::decision::{Admission, Decision};
use crate::error::Error;
use crate::key::Key;
use crate::lease::{Lease, LeaseId, Settlement};
use crate::policy::{FailureMode, Policy};
use crate::set::LimitSet;

/// A policy in use.
pub struct Served {
    policy: Policy,
    set: LimitSet,
    meters: Meters,
    name: Arc<str>,
    denials: Arc<Denials>,
}

/// The answer to an ask without a lease.
#[derive(Clone, Debug)]
pub enum Answer {
    /// What the limits say.
    Decided(Decision),
    /// The store could not tell; admitted, as the policy's failure mode says.
    Degraded(StoreError),
}

/// The answer to an ask for a lease.
#[derive(Clone, Debug)]
pub enum Entry {
    /// Yes.
    Granted(Ticket),
    /// Not now.
    Refused(Decision),
    /// The store could not tell; admitted without a lease, as the policy's
    /// failure mode says.
    Degraded(StoreError),
}

/// A lease that is held elsewhere: by whoever knows its id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ticket {
    /// What settles it.
    pub id: LeaseId,
    /// Larger than that of every earlier lease on the same slots; 0 without.
    pub fence: u64,
    /// When it expires unless renewed.
    pub expires_at: Timestamp,
    /// It was given before, to an ask with the same idempotency key.
    pub repeated: bool,
}

impl Answer {
    /// Whether it may start.
    #[must_use]
    pub fn admitted(&self) -> bool {
        match self {
            Self::Decided(decision) => decision.admitted(),
            Self::Degraded(_) => true,
        }
    }
}

impl From<Lease> for Ticket {
    fn from(lease: Lease) -> Self {
        Self {
            fence: lease.fence(),
            expires_at: lease.expires_at(),
            repeated: lease.is_repeated(),
            id: lease.detach(),
        }
    }
}

impl Served {
    pub(super) fn new(policy: Policy, set: LimitSet, denials: Arc<Denials>) -> Self {
        Self {
            meters: Meters::of(&policy.name),
            name: policy.name.as_str().into(),
            policy,
            set,
            denials,
        }
    }

    /// The policy as it was written.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Its limits.
    #[must_use]
    pub const fn set(&self) -> &LimitSet {
        &self.set
    }

    /// The verdict alone on `cost`: the leanest check.
    ///
    /// # Errors
    /// As [`LimitSet::admit`].
    #[inline]
    pub fn admit<'k>(&self, key: impl Into<Key<'k>>, cost: u64) -> Result<Verdict, GateError> {
        let key = key.into();
        let verdict = self.timed(|| aside(&self.set, || self.set.admit(key, cost)));
        match &verdict {
            Ok(verdict) => {
                self.meters.decided(verdict.admitted());
                if !verdict.admitted() {
                    self.denials.note(&self.name, key.bytes(), None);
                }
            }
            Err(_) => self.meters.failed(),
        }
        Ok(verdict?)
    }

    /// Takes what `ask` says, if it fits, without a lease.
    ///
    /// # Errors
    /// As [`LimitSet::check`], but for what the failure mode answers.
    pub fn check<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Answer, GateError> {
        let key = key.into();
        self.answered(
            key,
            self.timed(|| aside(&self.set, || self.set.check(key, ask))),
        )
    }

    /// Charges what was used already.
    ///
    /// # Errors
    /// As [`LimitSet::debit`], but for what the failure mode answers.
    pub fn debit<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Answer, GateError> {
        let key = key.into();
        match self.timed(|| aside(&self.set, || self.set.debit(key, ask))) {
            // It was used, whatever there was.
            Ok(decision) => {
                self.meters.decided(true);
                Ok(Answer::Decided(decision))
            }
            Err(error) => self.by_failure_mode(error).map(Answer::Degraded),
        }
    }

    /// What [`check`](Self::check) would answer now.
    ///
    /// # Errors
    /// As [`LimitSet::peek`].
    pub fn peek<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Decision, GateError> {
        Ok(self.set.peek(key, ask)?)
    }

    /// As [`LimitSet::forecast`].
    ///
    /// # Errors
    /// As [`LimitSet::forecast`].
    pub fn forecast<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Vec<(String, Forecast)>, GateError> {
        Ok(self.set.forecast(key, ask)?)
    }

    /// Takes a lease, waiting no longer than the ask says (and not at all if
    /// it says nothing). Dropping the future gives back its place.
    ///
    /// # Errors
    /// As [`LimitSet::acquire`], but for what the failure mode answers.
    pub async fn acquire(&self, key: Key<'_>, ask: Ask<'_>) -> Result<Entry, GateError> {
        let begun = self.now();
        let admission = match ask.is_patient() && ask.within.is_some() {
            true => step_aside(&self.set, self.set.acquire_async(key, ask)).await,
            false => self.timed(|| aside(&self.set, || self.set.try_acquire(key, ask))),
        };
        match admission {
            Ok(Admission::Granted(lease)) => {
                self.meters.waited(self.since(begun));
                self.meters.decided(true);
                Ok(Entry::Granted(lease.into()))
            }
            Ok(Admission::Refused(decision)) => {
                self.refused(key, &decision);
                Ok(Entry::Refused(decision))
            }
            Err(error) => self.by_failure_mode(error).map(Entry::Degraded),
        }
    }

    /// Settles a lease. A retry gets the first answer.
    ///
    /// # Errors
    /// As [`LimitSet::settle`].
    pub fn settle(
        &self,
        key: Key<'_>,
        id: LeaseId,
        used: &[(&str, u64)],
    ) -> Result<Settlement, GateError> {
        Ok(aside(&self.set, || self.set.settle(key, id, used))?)
    }

    /// Releases a lease. A retry gets the first answer.
    ///
    /// # Errors
    /// As [`LimitSet::release`].
    pub fn release(&self, key: Key<'_>, id: LeaseId) -> Result<Settlement, GateError> {
        Ok(aside(&self.set, || self.set.release(key, id))?)
    }

    /// Gives all of a lease back: the work did not start.
    ///
    /// # Errors
    /// As [`LimitSet::cancel`].
    pub fn cancel(&self, key: Key<'_>, id: LeaseId) -> Result<Settlement, GateError> {
        Ok(aside(&self.set, || self.set.cancel(key, id))?)
    }

    /// Moves a lease's expiry.
    ///
    /// # Errors
    /// As [`LimitSet::renew`].
    pub fn renew(&self, key: Key<'_>, id: LeaseId, ttl: Duration) -> Result<Timestamp, GateError> {
        Ok(aside(&self.set, || self.set.renew(key, id, ttl))?)
    }

    /// Forgets a key; `caller` is noted.
    ///
    /// # Errors
    /// As [`LimitSet::reset`].
    pub fn reset(&self, caller: &Caller, key: Key<'_>) -> Result<(), GateError> {
        aside(&self.set, || self.set.reset(key))?;
        let key = String::from_utf8_lossy(key.bytes());
        audit::note(
            caller.name(),
            "reset",
            &format!("{}/{key}", self.policy.name),
        );
        Ok(())
    }

    /// The time by its clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.set.now()
    }

    /// Brings what is measured up to date.
    pub(super) fn observe(&self) {
        self.meters.observe(&self.set);
    }

    /// Does it, and measures some of the times how long it took.
    #[inline]
    fn timed<T>(&self, decide: impl FnOnce() -> T) -> T {
        if !self.meters.wants_time() {
            return decide();
        }
        let begun = self.now();
        let answer = decide();
        self.meters.took(self.since(begun));
        answer
    }

    fn since(&self, begun: Timestamp) -> Duration {
        Span::as_duration(self.now().since(begun))
    }

    fn refused(&self, key: Key<'_>, decision: &Decision) {
        self.meters.decided(false);
        self.denials.note(&self.name, key.bytes(), Some(decision));
    }

    fn answered(
        &self,
        key: Key<'_>,
        decision: Result<Decision, Error>,
    ) -> Result<Answer, GateError> {
        match decision {
            Ok(decision) => {
                match decision.admitted() {
                    true => self.meters.decided(true),
                    false => self.refused(key, &decision),
                }
                Ok(Answer::Decided(decision))
            }
            Err(error) => self.by_failure_mode(error).map(Answer::Degraded),
        }
    }

    /// What is answered when the store cannot tell.
    fn by_failure_mode(&self, error: Error) -> Result<StoreError, GateError> {
        let error = GateError::from(error);
        match error {
            GateError::Limits(Error::Store(store))
                if self.policy.failure_mode == FailureMode::Admit
                    && GateError::from(Error::Store(store.clone())).kind() == Kind::Unavailable =>
            {
                self.meters.degraded();
                Ok(store)
            }
            error => {
                self.meters.failed();
                Err(error)
            }
        }
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served")
            .field("policy", &self.policy.name)
            .field("set", &self.set)
            .finish_non_exhaustive()
    }
}
