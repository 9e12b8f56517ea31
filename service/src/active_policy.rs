//! One policy's verbs, counted, with its failure mode. Who decides, its limits or
//! its pool, is `limiter`'s to know.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Span, Timestamp};
use tidegate_store::{Count, StoreError};

use super::access::Caller;
use super::audit;
use super::bounds;
use super::denials::Denials;
use super::error::{Kind, ServiceError, or_never};
use super::finish::{Finish, Finished, Renewed, Report};
use super::jitter::Jitter;
use super::limiter::Limiter;
use super::member_forecast::MemberForecast;
use super::meters::{Meters, Observed};
use super::share::Share;
use super::spans;
use tidegate::internal::{
    DecisionInternals, LeaseInternals, RequestInternals, SetInternals, is_same_tier, pending,
};
use tidegate::{
    Admission, Decision, DecisionError, Error, Grant, Key, Lease, LeaseError, LeaseId, Limit,
    LimitSet, Member, Metadata, Pending, Request, Settlement, Tier, Unit,
};
use tidegate_policy::{FailureMode, Policy};

/// For how long a grant is held if nobody says.
const USUAL_HOLD: Duration = Duration::from_secs(1);

/// A policy in use.
pub struct ActivePolicy {
    policy: Policy,
    limiter: Limiter,
    /// What decides while the store cannot tell, if the policy says so.
    share: Option<Share>,
    /// The words that come with the leases of a plain policy.
    metadata: Arc<Metadata>,
    /// Some limit has a unit of its own.
    has_units: bool,
    meters: Meters,
    name: Arc<str>,
    denials: Arc<Denials>,
    /// How much later those who are refused are told to come back.
    jitter: Option<Jitter>,
    /// How long a request may wait.
    longest_wait: Duration,
}

/// The answer to a request without a lease.
#[derive(Clone, Debug)]
pub enum Charge {
    /// What the limits say.
    Decided(Decision),
    /// The store could not tell; admitted, as the policy's failure mode says.
    Degraded(StoreError),
}

/// The answer to a request for a lease.
#[derive(Clone, Debug)]
pub enum Acquired {
    /// Yes.
    Granted(GrantedLease),
    /// Not now.
    Refused(Decision),
    /// The store could not tell; admitted without a lease, as the policy's
    /// failure mode says.
    Degraded(StoreError),
}

/// A lease that is held elsewhere: by whoever knows its id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GrantedLease {
    /// What settles it.
    pub id: LeaseId,
    /// Larger than that of every earlier lease on the same slots; `None` without slots, and of one
    /// that a tier gave.
    pub fence: Option<u64>,
    /// When it was granted, by the store's clock.
    pub granted_at: Timestamp,
    /// When it expires unless renewed.
    pub expires_at: Timestamp,
    /// For how long it surely lasts from the answer on, unless renewed.
    pub expires_in: Duration,
    /// How long its request was here until then.
    pub waited: Duration,
    /// It was given before, to a request with the same idempotency key.
    pub repeated: bool,
    /// A shadow limit would have refused it.
    pub shadowed: bool,
    /// The store could not tell: it was given by a share of the limits, in this
    /// process, and is known to it alone.
    pub degraded: bool,
    member: Option<Member>,
    metadata: Arc<Metadata>,
    decision: Option<Box<Decision>>,
}

impl GrantedLease {
    /// The member of a pool that gave it.
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        self.member.as_ref().map(Member::name)
    }

    /// Where the limits stood, if the request [wanted to know](Request::standings).
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_deref()
    }

    /// The words of the policy, or of that member, that come with its leases.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Charge {
    /// Whether it may start.
    #[must_use]
    pub fn admitted(&self) -> bool {
        match self {
            Self::Decided(decision) => decision.admitted(),
            Self::Degraded(_) => true,
        }
    }
}

impl GrantedLease {
    fn new(lease: Lease, waited: Duration, metadata: &Arc<Metadata>, degraded: bool) -> Self {
        Self {
            degraded,
            waited,
            expires_in: lease.left().as_duration(),
            fence: lease.fence(),
            granted_at: lease.granted_at(),
            expires_at: lease.expires_at(),
            repeated: lease.is_repeated(),
            shadowed: lease.shadowed(),
            member: lease.source().cloned(),
            metadata: Arc::clone(metadata),
            decision: lease.decision().cloned().map(Box::new),
            id: lease.hand_over(),
        }
    }
}

impl ActivePolicy {
    pub(super) fn new(
        policy: Policy,
        limiter: Limiter,
        share: Option<Share>,
        denials: Arc<Denials>,
        (longest_wait, namespace): (Duration, Option<&str>),
        before: Option<&Self>,
    ) -> Self {
        let mut meters = Meters::of(&policy, namespace);
        let goes_on = |before: &&Self| is_same_tier(before.limiter.set(), limiter.set());
        if let Some(before) = before.filter(goes_on) {
            meters.go_on(&before.meters);
        }
        Self {
            longest_wait,
            share,
            has_units: has_units(&policy),
            meters,
            name: policy.name.as_str().into(),
            jitter: policy.jitter.map(Jitter::new),
            metadata: Arc::new(policy.metadata.clone()),
            policy,
            limiter,
            denials,
        }
    }

    /// The policy as it was written.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How much later than it may somebody who is refused is told to come back.
    pub(super) fn jitter(&self) -> Span {
        self.jitter.as_ref().map_or(Span::default(), Jitter::draw)
    }

    /// Its limits; of a pool, those of its first member.
    #[must_use]
    pub fn set(&self) -> &LimitSet {
        self.limiter.set()
    }

    /// Its limit sets: one, or one for each member of a pool.
    pub fn sets(&self) -> impl Iterator<Item = &LimitSet> {
        self.limiter.sets()
    }

    /// Those, and the sets that stand in for them.
    pub(super) fn every_set(&self) -> impl Iterator<Item = &LimitSet> {
        let share = self.share.as_ref().map(|share| share.limiter().sets());
        self.sets().chain(share.into_iter().flatten())
    }

    /// Each of its sets with the limits that the policy gives it.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&LimitSet, &[Limit])> {
        self.sets().zip(self.policy.limit_lists())
    }

    /// The members of a pool, as they stand now; none of a plain policy.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        match self.limiter.pool() {
            Some(pooled) => {
                pooled.observe();
                pooled.pool().members()
            }
            None => &[],
        }
    }

    /// How many keys it holds state of; nothing where processes share the store: to count
    /// them there is to read them all.
    #[must_use]
    pub fn keys(&self) -> Option<usize> {
        self.count().map(|count| count.keys)
    }

    /// How much it holds, where that is counted here.
    fn count(&self) -> Option<Count> {
        let count = |set: &LimitSet| match set.is_shared() {
            true => None,
            false => set.count().now_or_never()?.ok(),
        };
        let nothing = Count {
            keys: 0,
            leases: Some(0),
            remembered: Some(0),
        };
        let add = |one: Option<usize>, other: Option<usize>| Some(one? + other?);
        self.sets().try_fold(nothing, |sum, set| {
            let count = count(set)?;
            Some(Count {
                keys: sum.keys + count.keys,
                leases: add(sum.leases, count.leases),
                remembered: add(sum.remembered, count.remembered),
            })
        })
    }

    /// How many requests wait now.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.limiter.waiting()
    }

    pub(super) const fn has_units(&self) -> bool {
        self.has_units
    }

    pub(super) const fn share(&self) -> Option<&Share> {
        self.share.as_ref()
    }

    pub(super) const fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Takes what `request` says, if it fits, without a lease.
    ///
    /// # Errors
    /// As [`LimitSet::check`], but for what the failure mode answers.
    pub fn check<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Charge, ServiceError>> + Send> {
        let (key, request) = (key.into(), request.into());
        pending(async move {
            let begun = self.begin_timing();
            let decision = self.limiter.check(key, request).await;
            self.end_timing(begun);
            match self.share_for_error(&decision) {
                None => self.answered(key, decision),
                // Nobody else takes room for it.
                Some(share) => Box::pin(self.check_by(share, key, request, decision)).await,
            }
        })
    }

    /// As [`check`](Self::check), each by itself, in their order: an answer to each.
    /// Plain limits decide about all at one instant, by one command to their store.
    pub(super) async fn check_each(
        &self,
        items: &[(Key<'_>, Request<'_>)],
    ) -> Vec<Result<Charge, ServiceError>> {
        let begun = self.begin_timing();
        let decisions = self.limiter.check_each(items).await;
        self.end_timing(begun);
        let mut answers = Vec::with_capacity(items.len());
        for (&(key, request), decision) in items.iter().zip(decisions) {
            answers.push(match self.share_for_error(&decision) {
                None => self.answered(key, decision),
                Some(share) => self.check_by(share, key, request, decision).await,
            });
        }
        answers
    }

    /// What a check is answered that the store could not decide: by a share of the limits, if
    /// that can tell.
    async fn check_by(
        &self,
        share: &Share,
        key: Key<'_>,
        request: Request<'_>,
        by_store: Result<Decision, DecisionError>,
    ) -> Result<Charge, ServiceError> {
        match share.check(key, request).await {
            Some(by_share) => {
                self.meters.degraded();
                self.answered(key, Ok(by_share))
            }
            None => self.answered(key, by_store),
        }
    }

    /// Charges what was used already; of a pool, at `member`.
    ///
    /// # Errors
    /// As [`LimitSet::debit`], but for what the failure mode answers;
    /// [`ServiceError::MemberNeeded`], [`UnknownMember`](tidegate::UnknownMember),
    /// [`ServiceError::NoPool`].
    pub fn debit_at<'k, 'a>(
        &self,
        member: Option<&str>,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Charge, ServiceError>> + Send> {
        let (key, request) = (key.into(), request.into());
        pending(async move {
            let begun = self.begin_timing();
            let mut decision = self.limiter.debit(member, key, request).await;
            self.end_timing(begun);
            if let Some(share) = self.share_for_error(&decision)
                && let Some(by_share) = share.debit(member, key, request).await
            {
                self.meters.degraded();
                decision = Ok(by_share);
            }
            match decision {
                // It was used, whatever there was.
                Ok(decision) => {
                    self.admitted(key);
                    Ok(Charge::Decided(decision))
                }
                Err(error) => self.by_failure_mode(key, error).map(Charge::Degraded),
            }
        })
    }

    /// Charges what was used already, by a plain policy.
    ///
    /// # Errors
    /// As [`debit_at`](Self::debit_at).
    pub fn debit<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Charge, ServiceError>> + Send> {
        self.debit_at(None, key, request)
    }

    /// What [`check`](Self::check) would answer now.
    ///
    /// # Errors
    /// As [`LimitSet::peek`].
    pub fn peek<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, ServiceError>> + Send> {
        self.peek_at(None, key, request)
    }

    /// The same, of one member of a pool if it is named.
    ///
    /// # Errors
    /// As [`LimitSet::peek`]; [`UnknownMember`](tidegate::UnknownMember), [`ServiceError::NoPool`].
    pub fn peek_at<'k, 'a>(
        &self,
        member: Option<&str>,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, ServiceError>> + Send> {
        let (key, request) = (key.into(), request.into());
        pending(async move {
            let decision = self.limiter.peek(member, key, request).await;
            spans::done(key.bytes(), decision.and_then(or_never))
        })
    }

    /// As [`LimitSet::forecast`]; of a pool, for each member that could serve
    /// the request, or for the one that is named.
    ///
    /// # Errors
    /// As [`LimitSet::forecast`]; [`UnknownMember`](tidegate::UnknownMember),
    /// [`ServiceError::NoPool`].
    pub fn forecast<'k, 'a>(
        &self,
        member: Option<&str>,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Vec<MemberForecast>, ServiceError>> + Send> {
        let (key, request) = (key.into(), request.into());
        pending(async move {
            let forecasts = self.limiter.forecast(member, key, request).await;
            let forecasts = forecasts.and_then(|forecasts| self.within_limits(forecasts));
            spans::done(key.bytes(), forecasts)
        })
    }

    /// The forecasts that may come true.
    ///
    /// # Errors
    /// [`ServiceError::Never`], if there is none.
    fn within_limits(
        &self,
        mut forecasts: Vec<MemberForecast>,
    ) -> Result<Vec<MemberForecast>, ServiceError> {
        let never = forecasts.iter().find_map(MemberForecast::never);
        forecasts.retain(|foreseen| foreseen.never().is_none());
        match never {
            Some((limit, most)) if forecasts.is_empty() => Err(ServiceError::Never {
                limit: limit.clone(),
                most: self.unit(&limit).show(most).to_string(),
            }),
            _ => Ok(forecasts),
        }
    }

    /// Takes a lease, waiting no longer than the request says (and not at all if
    /// it says nothing). Dropping the future gives back its place.
    ///
    /// # Errors
    /// As [`LimitSet::acquire`], but for what the failure mode answers;
    /// [`ServiceError::WaitTooLong`].
    pub fn acquire(
        &self,
        key: Key<'_>,
        mut request: Request<'_>,
    ) -> Pending<impl Future<Output = Result<Acquired, ServiceError>> + Send> {
        pending(async move {
            spans::record_error(self.check_wait(&request))?;
            let begun = self.now();
            request = request.ttl_or(self.policy.ttl);
            // Who says nothing does not wait.
            let request = request.within(request.longest_wait().unwrap_or_default());
            // How long a request waits is measured by itself.
            let timed = match request.is_patient() {
                true => None,
                false => self.begin_timing(),
            };
            let admission = self.limiter.acquire(key, request).await;
            self.end_timing(timed);
            match admission {
                Ok(Admission::Granted(lease)) => {
                    let waited = self.since(begun);
                    self.meters.waited(waited);
                    self.admitted(key);
                    if lease.shadowed() {
                        self.meters.shadowed();
                    }
                    let granted = self.granted(&self.limiter, lease, waited, false);
                    Ok(Acquired::Granted(granted))
                }
                Ok(Admission::Refused(decision)) => self.refusal(key, decision),
                Err(error) => match self.share_for(&error) {
                    // Nobody else takes room for it.
                    Some(share) => {
                        Box::pin(self.acquire_by(share, key, request, (begun, error))).await
                    }
                    None => self.by_failure_mode(key, error).map(Acquired::Degraded),
                },
            }
        })
    }

    fn check_wait(&self, request: &Request<'_>) -> Result<(), ServiceError> {
        let longest = self.longest_wait;
        match request
            .longest_wait()
            .filter(|requested| *requested > longest)
        {
            Some(requested) => Err(ServiceError::WaitTooLong { requested, longest }),
            None => Ok(()),
        }
    }

    /// As [`acquire`](Self::acquire), by a share of the limits: the store could
    /// not tell, and said so.
    async fn acquire_by(
        &self,
        share: &Share,
        key: Key<'_>,
        request: Request<'_>,
        (begun, error): (Timestamp, DecisionError),
    ) -> Result<Acquired, ServiceError> {
        // It has waited at the store already.
        let wait = request.longest_wait().unwrap_or_default();
        let request = request.within(wait.saturating_sub(self.since(begun)));
        let Some(admission) = share.acquire(key, request).await else {
            return self.by_failure_mode(key, error).map(Acquired::Degraded);
        };
        self.meters.degraded();
        match admission {
            Admission::Granted(lease) => {
                self.admitted(key);
                let granted = self.granted(share.limiter(), lease, self.since(begun), true);
                Ok(Acquired::Granted(granted))
            }
            Admission::Refused(decision) => self.refusal(key, decision),
        }
    }

    /// A refusal of a lease, counted.
    fn refusal(&self, key: Key<'_>, decision: Decision) -> Result<Acquired, ServiceError> {
        let decision = or_never(decision).map_err(|never| self.failed(key, never))?;
        self.refused(key, &decision);
        Ok(Acquired::Refused(decision))
    }

    /// Grants units to be spent elsewhere without asking, as the lease `id`: held for `hold`, or
    /// for as long as the policy's tier holds one, or else a second.
    ///
    /// # Errors
    /// As [`LimitSet::grant`], whatever the failure mode: a store that cannot tell grants
    /// nothing. [`ServiceError::Form`]: of a pool.
    pub fn grant<'r>(
        &self,
        key: Key<'r>,
        id: LeaseId,
        asked: (Request<'r>, Request<'r>),
        hold: Option<Duration>,
    ) -> Pending<impl Future<Output = Result<Admission<Grant>, ServiceError>> + Send> {
        let by_tier = || self.policy.tier.as_ref().map(Tier::longest_hold);
        let hold = hold.or_else(by_tier).unwrap_or(USUAL_HOLD);
        pending(async move {
            let begun = self.begin_timing();
            let granted = self.limiter.grant(key, id, asked, hold).await;
            self.end_timing(begun);
            match granted {
                Ok(Admission::Refused(decision)) => {
                    let decision = or_never(decision).map_err(|never| self.failed(key, never))?;
                    self.refused(key, &decision);
                    Ok(Admission::Refused(decision))
                }
                Ok(granted) => {
                    self.admitted(key);
                    Ok(granted)
                }
                Err(error) => Err(self.failed(key, error)),
            }
        })
    }

    /// Settles a lease. A retry gets the first answer.
    ///
    /// # Errors
    /// As [`LimitSet::settle`].
    pub fn settle<'u>(
        &self,
        key: Key<'_>,
        id: LeaseId,
        used: impl Into<Request<'u>>,
    ) -> Pending<impl Future<Output = Result<Settlement, ServiceError>> + Send> {
        pending(self.end(key, id, Finish::Settle(used.into())))
    }

    /// Releases a lease. A retry gets the first answer.
    ///
    /// # Errors
    /// As [`LimitSet::release`].
    pub fn release(
        &self,
        key: Key<'_>,
        id: LeaseId,
    ) -> Pending<impl Future<Output = Result<Settlement, ServiceError>> + Send> {
        pending(self.end(key, id, Finish::Release))
    }

    /// Gives all of a lease back: the work did not start.
    ///
    /// # Errors
    /// As [`LimitSet::cancel`].
    pub fn cancel(
        &self,
        key: Key<'_>,
        id: LeaseId,
    ) -> Pending<impl Future<Output = Result<Settlement, ServiceError>> + Send> {
        pending(self.end(key, id, Finish::Cancel))
    }

    async fn end(
        &self,
        key: Key<'_>,
        id: LeaseId,
        how: Finish<'_>,
    ) -> Result<Settlement, ServiceError> {
        let finished = self.finish(key, id, how, &Report::default()).await?;
        Ok(finished.settlement)
    }

    /// Ends a lease, with what its holder says of the work: a pool's member may
    /// cool down by it. A retry gets the first answer, and changes nothing.
    ///
    /// # Errors
    /// As [`LimitSet::settle`]; [`ServiceError::NoPool`] for a cool-down without one;
    /// [`ServiceError::Bound`] for one of no time, or of more than 400 days.
    pub fn finish(
        &self,
        key: Key<'_>,
        id: LeaseId,
        how: Finish<'_>,
        report: &Report,
    ) -> Pending<impl Future<Output = Result<Finished, ServiceError>> + Send> {
        pending(async move {
            let ended = match bounds::cool_down(report.cool_down) {
                Ok(()) if report.cool_down.is_some() && self.limiter.pool().is_none() => {
                    Err(ServiceError::NoPool)
                }
                Ok(()) => {
                    let ended = self.by_holder(|limiter| limiter.finish(key, id, how, report));
                    ended.await.map_err(ServiceError::from)
                }
                Err(error) => Err(error),
            };
            spans::done(key.bytes(), ended)
        })
    }

    /// Moves a lease's expiry to `ttl` from now; to as much as a request for a lease gets
    /// that does not say, if it is not said.
    ///
    /// # Errors
    /// As [`LimitSet::renew`].
    pub fn renew(
        &self,
        key: Key<'_>,
        id: LeaseId,
        ttl: Option<Duration>,
    ) -> Pending<impl Future<Output = Result<Renewed, ServiceError>> + Send> {
        let ttl = ttl.or(self.policy.ttl);
        pending(async move {
            let renewed = self.by_holder(|limiter| limiter.renew(key, id, ttl)).await;
            spans::done(key.bytes(), renewed.map_err(ServiceError::from))
        })
    }

    /// Changes how much a lease has taken; with `overdraw` into debt if need be.
    ///
    /// # Errors
    /// As [`LimitSet::adjust`].
    pub fn adjust<'u>(
        &self,
        key: Key<'_>,
        id: LeaseId,
        to: impl Into<Request<'u>>,
        overdraw: bool,
    ) -> Pending<impl Future<Output = Result<Decision, ServiceError>> + Send> {
        let to = to.into();
        pending(async move {
            let adjusted = self.by_holder(|limiter| async move {
                let decision = limiter.adjust(key, id, to, overdraw).await?;
                Ok(match self.is_by_share(limiter) {
                    true => decision.mark_degraded(),
                    false => decision,
                })
            });
            match adjusted.await {
                Ok(decision) if !decision.admitted() => {
                    let decision = or_never(decision).map_err(|never| self.failed(key, never))?;
                    self.refused(key, &decision);
                    Ok(decision)
                }
                adjusted => spans::done(key.bytes(), adjusted.map_err(ServiceError::from)),
            }
        })
    }

    /// What is answered where a lease is held: by the share, if that gave it. One that knows
    /// nothing of a lease may say anything else of the request (another member's limits
    /// are unknown to it): then the store is asked.
    async fn by_holder<'s, T, F: Future<Output = Result<T, LeaseError>> + Send>(
        &'s self,
        request: impl Fn(&'s Limiter) -> F + Send,
    ) -> Result<T, LeaseError> {
        let Some(share) = &self.share else {
            return request(&self.limiter).await;
        };
        let by_share = match request(share.limiter()).await {
            Err(error) if !matches!(error, LeaseError::Ended(_)) => error,
            ours => return ours,
        };
        match request(&self.limiter).await {
            Err(LeaseError::Unknown) => Err(by_share),
            answer => answer,
        }
    }

    fn is_by_share(&self, limiter: &Limiter) -> bool {
        let share = self.share.as_ref();
        share.is_some_and(|share| std::ptr::eq(share.limiter(), limiter))
    }

    /// Forgets a key; `caller` is noted.
    ///
    /// # Errors
    /// As [`LimitSet::reset`].
    pub fn reset(
        &self,
        caller: &Caller,
        key: Key<'_>,
    ) -> Pending<impl Future<Output = Result<(), ServiceError>> + Send> {
        pending(async move {
            let reset = self.limiter.reset(key).await;
            spans::done(key.bytes(), reset.map_err(ServiceError::from))?;
            let key = String::from_utf8_lossy(key.bytes());
            let subject = format!("{}/{key}", self.policy.name);
            audit::note(caller.namespace(), caller.name(), "reset", &subject);
            Ok(())
        })
    }

    /// The time by its clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.limiter.set().now()
    }

    /// Brings what is measured up to date.
    pub(super) fn observe(&self) {
        let count = self.count();
        self.meters.observe(&Observed {
            waiting: self.waiting(),
            keys: count.map(|count| count.keys),
            leases: count.and_then(|count| count.leases),
            remembered: count.and_then(|count| count.remembered),
            tier: self.limiter.set().tier_statistics(),
        });
    }

    /// Tells what its tier has counted since that was told.
    pub(super) fn observe_tier(&self) {
        if let Some(tier) = self.limiter.set().tier_statistics() {
            self.meters.observe_tier(&tier);
        }
    }

    /// No policy has this name any more.
    pub(super) fn gone(&self) {
        self.meters.gone();
    }

    fn granted(
        &self,
        limiter: &Limiter,
        lease: Lease,
        waited: Duration,
        degraded: bool,
    ) -> GrantedLease {
        let metadata = match limiter.pool() {
            Some(pooled) => pooled.hand_out(&lease),
            None => None,
        };
        GrantedLease::new(lease, waited, metadata.unwrap_or(&self.metadata), degraded)
    }

    /// Gives back a lease that nobody was told of: nobody waits for the answer.
    pub(super) fn cancel_unseen(&self, key: Key<'_>, id: LeaseId) {
        if let Some(share) = &self.share {
            share.limiter().cancel_unseen(key, id);
        }
        self.limiter.cancel_unseen(key, id);
    }

    /// When a decision begins, if it is one of those whose time is measured.
    #[inline]
    fn begin_timing(&self) -> Option<Timestamp> {
        self.meters.wants_time().then(|| self.now())
    }

    #[inline]
    fn end_timing(&self, begun: Option<Timestamp>) {
        if let Some(begun) = begun {
            self.meters.took(self.since(begun));
        }
    }

    pub(super) fn since(&self, begun: Timestamp) -> Duration {
        Span::as_duration(self.now().since(begun))
    }

    #[inline]
    fn admitted(&self, key: Key<'_>) {
        self.meters.admitted();
        spans::outcome(key.bytes(), "admitted");
    }

    fn refused(&self, key: Key<'_>, decision: &Decision) {
        self.meters.refused(decision.binding());
        spans::outcome(key.bytes(), "refused");
        tracing::debug!(
            policy = &*self.name,
            key = %String::from_utf8_lossy(key.bytes()),
            "{decision}"
        );
        self.denials.note(&self.name, key.bytes(), decision);
    }

    fn answered(
        &self,
        key: Key<'_>,
        decision: Result<Decision, DecisionError>,
    ) -> Result<Charge, ServiceError> {
        match decision {
            Ok(decision) => {
                let decision = or_never(decision).map_err(|never| self.failed(key, never))?;
                match decision.admitted() {
                    true => self.admitted(key),
                    false => self.refused(key, &decision),
                }
                if decision.shadowed() {
                    self.meters.shadowed();
                }
                Ok(Charge::Decided(decision))
            }
            Err(error) => self.by_failure_mode(key, error).map(Charge::Degraded),
        }
    }

    /// The share that decides in place of a store that cannot tell, if the policy says
    /// so.
    fn share_for_error<T>(&self, answer: &Result<T, impl CannotTell>) -> Option<&Share> {
        self.share_for(answer.as_ref().err()?)
    }

    fn share_for(&self, error: &impl CannotTell) -> Option<&Share> {
        self.share.as_ref().filter(|_| error.is_away())
    }

    /// What is answered when the store cannot tell.
    fn by_failure_mode(
        &self,
        key: Key<'_>,
        error: impl Into<ServiceError>,
    ) -> Result<StoreError, ServiceError> {
        match error.into() {
            ServiceError::Limits(Error::Store(store))
                if self.policy.failure_mode == FailureMode::Admit && store.outage().is_some() =>
            {
                self.meters.degraded();
                spans::outcome(key.bytes(), "degraded");
                Ok(store)
            }
            error => Err(self.failed(key, error)),
        }
    }

    /// The same error, counted.
    fn failed(&self, key: Key<'_>, error: ServiceError) -> ServiceError {
        match error.kind() {
            Kind::Invalid | Kind::Never | Kind::NotFound | Kind::Ended => self.meters.invalid(),
            Kind::Full => {
                self.meters.failed();
                self.meters.full();
            }
            _ => self.meters.failed(),
        }
        spans::outcome(key.bytes(), error.kind().code());
        error
    }
}

fn has_units(policy: &Policy) -> bool {
    let mut limits = policy.limit_lists().flatten();
    limits.any(|limit| limit.amounts() != Unit::ONE)
}

/// Why there is no answer.
trait CannotTell {
    /// Whether the store cannot tell. What it answers of itself (a table that is full, a
    /// root that is busy) is no reason to let anything through.
    fn is_away(&self) -> bool;
}

impl CannotTell for DecisionError {
    fn is_away(&self) -> bool {
        matches!(self, Self::Store(store) if store.outage().is_some())
    }
}

impl CannotTell for ServiceError {
    fn is_away(&self) -> bool {
        matches!(self, Self::Limits(Error::Store(store)) if store.outage().is_some())
    }
}

impl fmt::Debug for ActivePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActivePolicy")
            .field("policy", &self.policy.name)
            .field("set", self.set())
            .finish_non_exhaustive()
    }
}
