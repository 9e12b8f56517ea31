//! The verbs of a pool, by key.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::Timestamp;

use super::balance::Balancer;
use super::holder::holder;
use super::ledger::Ledger;
use super::member::Member;
use super::repeats;
use super::round::{Asked, Latecomers, One, in_turn};
use super::wait::{PoolWait, Turn};
use super::walk::{Candidates, LeftOut, Tally, sign};
use crate::admission::Admission;
use crate::clock::Clock;
use crate::decision::Decision;
use crate::error::{DecisionError, UnknownMember};
use crate::key::Key;
use crate::lease::Lease;
use crate::pending::Pending;
use crate::request::Request;
use crate::set::Manner;
use crate::statistics::Statistics;

/// Several sets that can serve the same work (regions, accounts, endpoints),
/// from any thread or task. Cloning shares it.
///
/// A request is granted by one member: the first in the balancer's order that
/// admits it now, or, for a request that waits, the first that can. Members that
/// cool down are passed over. A member that cannot serve the request at all (it
/// does not know a limit that is named, or never grants as much) is passed
/// over too; only if that is so of all members is it an error. Beside a member that has
/// not answered for 300 ms the next on another store is asked: what both grant is taken
/// once, and the lease of the other given back. (What a check without a lease takes of both
/// stays charged.) Members on a store that cannot be reached are passed over together.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Balance, Limit, LimitPool, LimitSet};
///
/// let region = |name: &str| {
///     let limits = [Limit::concurrency("running", 2)];
///     LimitSet::builder().limits(limits).metadata("region", name).build()
/// };
/// let pool = LimitPool::builder()
///     .member("eu", region("europe-west4")?)
///     .weighted("us", region("us-east1")?, 3)
///     .balance(Balance::LeastLoaded)
///     .build()?;
///
/// let lease = pool.acquire("acme/alice", ()).wait()?.granted().expect("both are idle");
/// assert_eq!(lease.member(), Some("us"));
/// assert_eq!(lease.metadata()["region"], "us-east1");
/// // The provider answered 429, try again in ten seconds:
/// lease.cool_down(Duration::from_secs(10));
/// let next = pool.acquire("acme/alice", ()).wait()?.granted().expect("eu is idle");
/// assert_eq!(next.member(), Some("eu"));
/// # Ok::<(), tidegate::Error>(())
/// ```
///
/// Statistics: the pool counts each request once; a member's set counts what it
/// granted, and neither the refusals nor the waits that another made good.
#[derive(Clone)]
pub struct LimitPool {
    shared: Arc<Shared>,
    /// Counts the requests of this handle and its clones.
    turn: Arc<AtomicU64>,
}

struct Shared {
    /// At least one.
    members: Box<[Member]>,
    balancer: Box<dyn Balancer>,
    ledger: Arc<Ledger>,
}

impl LimitPool {
    pub(super) fn new(
        members: Box<[Member]>,
        balancer: Box<dyn Balancer>,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                members,
                balancer,
                ledger,
            }),
            turn: Arc::default(),
        }
    }

    /// The same pool with turns of its own, which begin at `offset`: workers
    /// with an offset each do not all begin at the same member.
    #[must_use]
    pub fn with_offset(&self, offset: u64) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            turn: Arc::new(AtomicU64::new(offset)),
        }
    }

    /// Takes what `request` says as a lease, from the first member that admits it
    /// now. A refusal is that of the member that is free soonest, the end of a
    /// cool-down included.
    ///
    /// # Errors
    /// [`DecisionError`], if no member could decide; nothing was changed.
    pub fn try_acquire<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission, DecisionError>> + Send> {
        self.acquire(key, request.into().within(Duration::ZERO))
    }

    /// Takes what `request` says as a lease, and waits for it at all members at
    /// once: whichever can serve it first does, and the request leaves the other
    /// queues. First come, first served at each, where one of a higher
    /// [priority](Request::priority) counts as having come earlier; for as long as the request
    /// [says](Request::within), and [30 seconds](crate::DEFAULT_WAIT) if it says nothing; then
    /// it is refused. A member that cools down is waited for too; one that has not
    /// answered 300 ms after the deadline is not, if another has refused. Given up before
    /// its end, it gives back what it took and its place in every queue.
    ///
    /// A request with an idempotency key that this process was not granted asks all members
    /// on shared stores first, at once, which of them holds its lease. A member is left out
    /// if its store cannot tell, or if no member on its store has answered within 300 ms and one
    /// on another store has.
    /// So a retry in another process, or after this one has started again, may be granted a
    /// second lease by another member, if the one that holds the first is left out; each of
    /// the two ends by itself, at its expiry at the latest. While that member answers, a
    /// retry gets the first lease. (A member that refuses nobody, for all its limits are
    /// shadows or have no bound, cannot be asked: there a retry may be granted a second
    /// lease, too.)
    ///
    /// # Errors
    /// [`DecisionError`], if no member could decide; nothing was changed.
    /// [`DecisionError::QueueFull`], if that is so of all members.
    pub fn acquire<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission, DecisionError>> + Send> {
        let (key, request) = (key.into().bytes(), request.into());
        Pending::new(async move {
            loop {
                let admission = self.take(key, &request).await?;
                if let Some(admission) = self.claimed(key, &request, admission).await {
                    return Ok(admission);
                }
            }
        })
    }

    /// Takes what `request` says without a lease, from the first member that
    /// admits it now; the decision tells which.
    ///
    /// # Errors
    /// [`DecisionError`], if no member could decide; nothing was changed.
    /// [`RequestError::NeedsLease`](crate::RequestError::NeedsLease) for concurrency.
    pub fn check<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, DecisionError>> + Send> {
        let (key, request) = (key.into().bytes(), request.into());
        Pending::new(async move {
            let candidates = self.candidates_in_order(&request);
            let decision = self
                .first(&candidates, (key, &request), Without::Lease)
                .await?;
            self.shared.ledger.counters.decided(&decision);
            Ok(decision)
        })
    }

    /// Whether any member would admit `request` now, and if none, when the first
    /// will. Changes nothing, and is nobody's turn. As at
    /// [`LimitSet::peek`](crate::LimitSet::peek), a request may ask for nothing.
    ///
    /// # Errors
    /// [`DecisionError`], if no member could decide.
    pub fn peek<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, DecisionError>> + Send> {
        let (key, request) = (key.into().bytes(), request.into());
        Pending::new(async move {
            let candidates = self.who_cools(&request);
            self.first(&candidates, (key, &request), Without::Change)
                .await
        })
    }

    /// The members, as they were added.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.shared.members
    }

    /// The member called `name`.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members().iter().find(|member| member.name() == name)
    }

    /// Passes over a member for `duration` from now (its provider has refused),
    /// or for as long as was said before if that is longer; answers until when,
    /// by its set's clock.
    ///
    /// # Errors
    /// [`UnknownMember`].
    pub fn cool_down(&self, member: &str, duration: Duration) -> Result<Timestamp, UnknownMember> {
        Ok(self.try_member(member)?.cool_down(duration))
    }

    /// Ends a member's cool-down now; who waits for it is served.
    ///
    /// # Errors
    /// [`UnknownMember`].
    pub fn end_cool_down(&self, member: &str) -> Result<(), UnknownMember> {
        self.try_member(member)?.end_cool_down();
        Ok(())
    }

    /// Until when a member is passed over, by its set's clock; nothing if it
    /// is not.
    ///
    /// # Errors
    /// [`UnknownMember`].
    pub fn cooling(&self, member: &str) -> Result<Option<Timestamp>, UnknownMember> {
        Ok(self.try_member(member)?.cooling())
    }

    /// What it has decided so far; each request counts once, whoever was tried.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.ledger.read()
    }

    /// How often each limit has refused since the pool was built, by name, the most
    /// frequent first: the one that [binds](Decision::binding) at the member that is free
    /// soonest. A refusal because members cool down is no limit's.
    #[must_use]
    pub fn refusals(&self) -> Vec<(String, u64)> {
        self.shared.ledger.counters.refusals()
    }

    pub(super) fn ledger(&self) -> &Arc<Ledger> {
        &self.shared.ledger
    }

    /// The time by its members' clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock().now()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.members()[0].inner().clock
    }

    /// The member called `name`.
    ///
    /// # Errors
    /// [`UnknownMember`], with the names of those that there are.
    pub fn try_member(&self, name: &str) -> Result<&Member, UnknownMember> {
        self.member(name).ok_or_else(|| {
            let names = self.members().iter().map(|m| format!("`{}`", m.name()));
            UnknownMember::new(name.into(), names.collect::<Vec<_>>().join(", "))
        })
    }

    /// Tries now, and waits where that is worth while.
    async fn take(&self, key: &[u8], request: &Request<'_>) -> Result<Admission, DecisionError> {
        let (clock, ledger) = (self.clock(), &*self.shared.ledger);
        let since = clock.now();
        let candidates = self.candidates(key, request).await?;
        let Tried {
            tally,
            left_out,
            late,
        } = match self.try_each(&candidates, key, request).await {
            Ok(granted) => {
                ledger.counters.answered(None);
                return Ok(granted);
            }
            Err(tried) => tried,
        };
        if late.is_empty() {
            let refused = tally.decision()?;
            if !request.is_patient() || refused.is_never() {
                ledger.counters.answered(Some(&refused));
                return Ok(Admission::Refused(refused));
            }
        }
        let candidates = candidates.without(left_out);
        let wait = PoolWait::new(&candidates, late, (key, request), ledger, (clock, since));
        wait.answer().await
    }

    /// What a member grants now; if none does, what they have said. The set counts a grant;
    /// a refusal is the pool's to count, for another member may grant.
    async fn try_each<'c>(
        &'c self,
        candidates: &Candidates<'c>,
        key: &'c [u8],
        request: &'c Request<'c>,
    ) -> Result<Admission, Tried<'c>> {
        let mut tally = candidates.tally();
        let mut left_out = LeftOut::new();
        let take = |(member, cooling): One<'c>| async move {
            let set = member.inner();
            match cooling {
                Some(until) => {
                    let decision = set.foresee(key, request).await?;
                    Ok(Admission::Refused(decision.not_before(until)))
                }
                None => {
                    let manner = Manner::alone(set.clock.now());
                    let now = request.within(Duration::ZERO);
                    Ok(set.acquire_uncounted(key, &now, manner).await?.0)
                }
            }
        };
        let latecomers = match request.is_patient() {
            true => Latecomers::AreLeft,
            false => Latecomers::AreWaitedFor,
        };
        let granted = in_turn(
            candidates.all(),
            latecomers,
            self.clock(),
            take,
            |(member, _), answer| {
                match answer {
                    Ok(granted @ Admission::Granted(_)) => {
                        member.inner().counters.admitted();
                        return Some(sign(member, granted));
                    }
                    Ok(Admission::Refused(decision)) => {
                        if decision.is_never() {
                            left_out.push((member, Ok(Decision::clone(&decision))));
                        }
                        tally.refused(member, decision);
                    }
                    Err(error) => {
                        left_out.push((member, Err(DecisionError::clone(&error))));
                        tally.failed(error);
                    }
                }
                None
            },
        );
        let late = match granted.await {
            Ok(granted) => return Ok(granted),
            Err(late) => late,
        };
        let still = late.into_each().map(|((member, _), asked)| {
            let asked: Pin<Box<Turn<'c>>> = asked;
            (member, asked)
        });
        Err(Tried {
            tally,
            left_out,
            late: Asked::of(still),
        })
    }

    /// The first member's decision that admits; else the refusal that ends soonest. One
    /// that is late may have been charged beside the one that admitted.
    async fn first<'c>(
        &'c self,
        candidates: &Candidates<'c>,
        (key, request): (&[u8], &Request<'_>),
        without: Without,
    ) -> Result<Decision, DecisionError> {
        let mut tally = Tally::default();
        let decide = |(member, cooling): One<'c>| {
            let set = member.inner();
            async move {
                let decision = match (cooling, without) {
                    (None, Without::Lease) => set.check(key, request, None).await,
                    (Some(_), Without::Lease) => set.foresee(key, request).await,
                    (_, Without::Change) => set.peek(key, request).await,
                }?;
                Ok(match cooling {
                    Some(until) => decision.not_before(until),
                    None => decision,
                })
            }
        };
        let read = |(member, cooling): One<'c>, decision| {
            match decision {
                Ok(decision) if cooling.is_none() && Decision::admitted(&decision) => {
                    if matches!(without, Without::Lease) {
                        member.inner().counters.admitted();
                    }
                    return Some(member.decided(decision));
                }
                Ok(decision) => tally.refused(member, decision),
                Err(error) => tally.failed(error),
            }
            None
        };
        let latecomers = Latecomers::AreWaitedFor;
        match in_turn(candidates.all(), latecomers, self.clock(), decide, read).await {
            Ok(decision) => Ok(decision),
            Err(_) => tally.decision(),
        }
    }

    /// The members in the balancer's order; for a request that repeats one, the
    /// member that holds its lease.
    ///
    /// # Errors
    /// [`DecisionError`], if the member that is known to have granted it cannot tell.
    async fn candidates<'c>(
        &'c self,
        key: &'c [u8],
        request: &'c Request<'c>,
    ) -> Result<Candidates<'c>, DecisionError> {
        if let Some((member, lease)) = self.repeated(key, request) {
            // It may have ended without a word to this pool: by its id, or with its key.
            match member.inner().has_granted(key, request).await? {
                Some(false) => self.shared.ledger.repeats.forget(lease),
                Some(true) | None => return Ok(Candidates::only(member)),
            }
        }
        let found = holder(self.members(), key, request, self.clock()).await;
        Ok(match found.holder {
            Some(member) => Candidates::only(member),
            None => self.candidates_in_order(request).without(found.left_out),
        })
    }

    fn candidates_in_order(&self, request: &Request<'_>) -> Candidates<'_> {
        let mut candidates = self.who_cools(request);
        if !candidates.ready.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            self.shared.balancer.order(&mut candidates.ready, turn);
        }
        candidates
    }

    fn who_cools(&self, request: &Request<'_>) -> Candidates<'_> {
        let mut candidates = Candidates::default();
        let asked = |member: &&Member| !request.passed_over.contains(&member.name());
        for member in self.members().iter().filter(asked) {
            match member.cooling() {
                Some(until) => candidates.cooling.push((member, until)),
                None => candidates.ready.push(member),
            }
        }
        candidates
    }

    /// The member that is known to have granted such a request, and the lease.
    fn repeated(&self, key: &[u8], request: &Request<'_>) -> Option<(&Member, u128)> {
        let name = repeats::name(key, request.idempotency?);
        let with = |id: u64| self.members().iter().find(|member| member.id() == id);
        let now = |id: u64| Some(with(id)?.inner().clock.now());
        let (member, lease) = self.shared.ledger.repeats.find(&name, now)?;
        Some((with(member)?, lease))
    }

    /// The admission, unless the same request was granted by another member in the
    /// meantime: then it is given back, to ask there.
    async fn claimed(
        &self,
        key: &[u8],
        request: &Request<'_>,
        admission: Admission,
    ) -> Option<Admission> {
        let (Some(idempotency), Admission::Granted(lease)) = (request.idempotency, &admission)
        else {
            return Some(admission);
        };
        if self.claim(&repeats::name(key, idempotency), lease) {
            return Some(admission);
        }
        // Should the store fail, the lease gives back at its expiry.
        if let Some(mut surplus) = admission.granted().filter(|lease| !lease.is_repeated()) {
            let _ = surplus.cancel().await;
        }
        None
    }

    fn claim(&self, name: &[u8], lease: &Lease) -> bool {
        let Some(member) = lease.source() else {
            return true;
        };
        let granted = (member.id(), lease.id().0);
        let repeats = &self.shared.ledger.repeats;
        repeats.claim(name, granted, lease.expires_at())
    }
}

/// Members that were tried, and none has granted.
struct Tried<'a> {
    tally: Tally,
    left_out: LeftOut<'a>,
    late: Asked<&'a Member, Turn<'a>>,
}

/// What members are asked beside a lease.
#[derive(Clone, Copy)]
enum Without {
    Lease,
    Change,
}

impl fmt::Debug for LimitPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitPool")
            .field("members", &self.members())
            .finish_non_exhaustive()
    }
}
