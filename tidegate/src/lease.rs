//! What an admitted ask holds until it is settled, released or expired.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_core::{Amount, Timestamp};
use tidegate_store::{self as store, AnswerRoom, Granted, OwnedKey, Reply, StoreError};

use crate::decision::Decision;
use crate::error::{LeaseEnd, LeaseError};
use crate::keep_alive::Kept;
use crate::key::Key;
use crate::lease_id::LeaseId;
use crate::limit::LimitName;
use crate::outcome::Outcome;
use crate::pending::Pending;
use crate::pool::Member;
use crate::request::Request;
use crate::set::{End, How, Inner, LimitSet, Metadata, Subject, View};

mod held;

/// A lease on what was taken. Dropping it gives slots back and counts rate
/// amounts as fully used. When the thread panics, the work has failed: the
/// outcome is [`Outcome::Dropped`], and rate amounts go as each limit's
/// `on_failure` says.
///
/// It expires by itself. For work of unknown length, [keep it alive](Self::keep_alive);
/// [`is_held`](Self::is_held) and [`lost`](Self::lost) say when to stop.
#[must_use = "what is held is given back when the lease is dropped"]
pub struct Lease {
    set: Arc<Inner>,
    key: OwnedKey,
    /// The limits by which it was granted, until it ends.
    view: Option<Arc<View>>,
    // What was granted, without the room between: a lease is moved a lot.
    id: u128,
    granted_at: Timestamp,
    /// When it was asked for, or renewed, by this machine's clock.
    asked_at: Timestamp,
    expires_at: Timestamp,
    /// 0: none.
    fence: u64,
    repeated: bool,
    /// How its holder has ended it.
    ended: Option<Ended>,
    failed: bool,
    outcome: Outcome,
    shadowed: bool,
    /// The pool's member that gave it.
    member: Option<Member>,
    /// What was decided, if its request wanted to know.
    decision: Option<Box<Decision>>,
    /// For how long it is surely held, once somebody wants to know.
    kept: OnceLock<Box<Kept>>,
}

impl Lease {
    pub(crate) fn new(
        (set, key): (Arc<Inner>, OwnedKey),
        granted: Granted,
        shadowed: bool,
        asked_at: Timestamp,
        view: Option<Arc<View>>,
    ) -> Self {
        Self {
            set,
            key,
            view,
            id: granted.id,
            granted_at: granted.granted_at,
            asked_at,
            expires_at: granted.expires_at,
            fence: granted.fence,
            repeated: granted.repeated,
            ended: None,
            failed: false,
            outcome: Outcome::Succeeded,
            shadowed,
            member: None,
            decision: None,
            kept: OnceLock::new(),
        }
    }

    /// The same, with what was decided.
    pub(crate) fn decided(mut self, decision: Decision) -> Self {
        self.decision = Some(Box::new(decision));
        self
    }

    /// The same, as given by this member.
    pub(crate) fn of(mut self, member: &Member) -> Self {
        if !self.repeated {
            member.began();
        }
        self.member = Some(member.clone());
        self
    }

    /// The pool's member that gave it.
    #[must_use]
    pub fn source(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    /// Its name, for settling it from elsewhere.
    #[must_use]
    pub fn id(&self) -> LeaseId {
        LeaseId(self.id)
    }

    /// The key it was taken for.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.key.bytes()
    }

    /// Larger than that of every earlier lease on the same slots; `None` without slots, and of one
    /// that a [tier](crate::LimitSetBuilder::tier) gave near the caller. Hand it to the resource,
    /// which refuses a smaller one.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        (self.fence > 0).then_some(self.fence)
    }

    /// Whether it was given before, to a request with the same idempotency key.
    /// Then dropping it ends nothing: the first holder may be at work. It can
    /// be settled, released and cancelled all the same.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// When it was granted, by the store's clock; for one that waited, the end of its
    /// wait. Neither a renewal nor an adjustment changes it, and a retry by its
    /// idempotency key is told the same.
    #[must_use]
    pub fn granted_at(&self) -> Timestamp {
        self.granted_at
    }

    /// When it expires unless renewed.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        let kept = self.kept.get();
        kept.map_or(self.expires_at, |kept| kept.expires_at())
    }

    /// Whether it has expired by now.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.expires_at() <= self.set.clock.now()
    }

    /// Where the limits stood when it was granted, if its request
    /// [wanted to know](crate::Request::standings); nothing for one that is
    /// [repeated](Self::is_repeated).
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_deref()
    }

    /// Whether a shadow limit would have refused it.
    #[must_use]
    pub const fn shadowed(&self) -> bool {
        self.shadowed
    }

    /// The metadata of the set it was taken from (region, account, endpoint).
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.set.metadata
    }

    /// The name of the pool's member that gave it; none if it is from no pool.
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        self.member.as_ref().map(Member::name)
    }

    /// The provider has refused (a 429, say): the pool passes over the member
    /// that gave this lease for `duration` from now, or for as long as was said
    /// before if that is longer. Answers until when; nothing if the lease is
    /// from no pool.
    pub fn cool_down(&self, duration: Duration) -> Option<Timestamp> {
        let member = self.member.as_ref()?;
        Some(member.cool_down(duration))
    }

    /// How the work went; said before the lease ends, counted when it does.
    pub fn set_outcome(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// How the work went, as far as it was said.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Reports what was really used: a cost (of every rate and budget that is not named)
    /// or amounts by limit name. Less than was taken is refunded (from a token bucket
    /// what has not drained meanwhile: the rest is free already), more becomes debt; what
    /// neither the cost nor a name tells of was used as taken. Slots come back. After
    /// expiry the real use is still charged, and the answer says `expired`.
    ///
    /// A rate that the request left out with amount 0 is left out here with amount 0,
    /// too. Of a [`Request`], only its amounts count.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Request, Limit, LimitSet};
    ///
    /// let minute = Duration::from_secs(60);
    /// let set = LimitSet::new([Limit::calls("rpm", 9, minute), Limit::rate("tpm", 9_000, minute)])?;
    /// let mut lease = set.try_acquire("k", 4_000).wait()?.granted().expect("there is room");
    /// lease.settle(3_120).wait()?;
    /// assert_eq!(set.peek("k", 1).wait()?.standing("tpm").map(|s| s.remaining), Some(5_880));
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    ///
    /// # Errors
    /// An unknown or repeated name or too large an amount (the lease is then
    /// still held, and kept alive if it was); a lease that has ended; the store.
    pub fn settle<'u>(
        &mut self,
        used: impl Into<Request<'u>>,
    ) -> Pending<impl Future<Output = Result<Settlement, LeaseError>> + Send> {
        Pending::new(self.end(How::Settle(used.into())))
    }

    /// Gives back what is held; rate amounts were used as taken.
    ///
    /// # Errors
    /// A lease that has ended; the store.
    pub fn release(
        &mut self,
    ) -> Pending<impl Future<Output = Result<Settlement, LeaseError>> + Send> {
        Pending::new(self.end(How::Release))
    }

    /// Gives everything back: the work did not start.
    ///
    /// # Errors
    /// A lease that has ended; the store.
    pub fn cancel(
        &mut self,
    ) -> Pending<impl Future<Output = Result<Settlement, LeaseError>> + Send> {
        Pending::new(self.end(How::Cancel))
    }

    /// The work failed: slots come back when the lease is dropped, and rate
    /// amounts too where the limit's `on_failure` says so.
    pub fn fail(&mut self) {
        self.failed = true;
        self.outcome = Outcome::Dropped;
    }

    /// Changes how much is taken, by a cost or by limit name, to `to` in all: more if it fits (of
    /// every limit, or of none), less in any case. What is not named stays as it is.
    /// More is charged now; less is given back where it was charged, the latest first.
    /// So a stream that grows asks for what it will need, and gives back what it will
    /// not, as often as it likes.
    ///
    /// A refusal changes nothing: the decision says when it would fit. An adjustment does not
    /// wait in the queue: a lease that holds slots must not wait behind requests that hold none.
    /// Dropped before
    /// the answer, it may have changed the lease or not; asking again for the same
    /// changes nothing more.
    ///
    /// # Errors
    /// An unknown or repeated name, too large an amount,
    /// [`RequestError::KeyTooShort`](crate::RequestError::KeyTooShort); a lease that has ended
    /// or expired; the store.
    pub fn adjust<'u>(
        &mut self,
        to: impl Into<Request<'u>>,
    ) -> Pending<impl Future<Output = Result<Decision, LeaseError>> + Send> {
        Pending::new(self.change(to.into(), false))
    }

    /// As [`adjust`](Self::adjust), for what is used already: more is charged even
    /// where it does not fit, and becomes debt. Slots have no debt: they must fit.
    ///
    /// # Errors
    /// As [`adjust`](Self::adjust).
    pub fn overdraw<'u>(
        &mut self,
        to: impl Into<Request<'u>>,
    ) -> Pending<impl Future<Output = Result<Decision, LeaseError>> + Send> {
        Pending::new(self.change(to.into(), true))
    }

    async fn change(&mut self, to: Request<'_>, overdraw: bool) -> Result<Decision, LeaseError> {
        self.check_live()?;
        let (key, id) = (self.key.bytes(), self.id);
        let adjusted = self.set.adjust(key, id, &to, overdraw).await;
        let (decision, fence) = adjusted.map_err(|error| self.known(error))?;
        self.fence = fence.unwrap_or(self.fence);
        Ok(match &self.member {
            Some(member) => member.decided(decision),
            None => decision,
        })
    }

    /// Leaves it to whoever knows its id: dropping does nothing any more, and
    /// unless it is settled or released by id, its slots come back at expiry.
    /// Of a pool, it is no load of its member from here on: nobody tells the
    /// pool when it ends.
    pub fn detach(self) -> LeaseId {
        if let Some(member) = self.member.as_ref().filter(|_| self.is_counted()) {
            member.left();
        }
        self.hand_over()
    }

    /// As [`detach`](Self::detach), but it stays its member's load: whoever has
    /// it now tells the member when it ends.
    pub(crate) fn hand_over(mut self) -> LeaseId {
        self.is_over(Ended::HandedOver);
        self.id()
    }

    /// Gives all of it back, since nobody was told of it. It goes on by itself: nobody waits for the
    /// answer, and what fails comes back at its expiry.
    pub(crate) fn cancel_unseen(mut self) {
        if self.is_counted() {
            self.outcome = Outcome::Ignored;
            self.end_unseen(Ended::Cancelled, How::Cancel);
        }
    }

    fn end_unseen(&mut self, ended: Ended, how: How<'_>) {
        self.over(ended);
        self.set.end_unseen(self.key.bytes(), self.id, how);
    }

    /// Whether its end is still to be counted. A repeated lease is counted where
    /// it was given first.
    const fn is_counted(&self) -> bool {
        self.ended.is_none() && !self.repeated
    }

    // No `async fn`: that moves what it is given once more.
    #[expect(clippy::manual_async_fn, reason = "see above")]
    fn end(&mut self, how: How<'_>) -> impl Future<Output = Result<Settlement, LeaseError>> {
        async move {
            self.check_live()?;
            // No renewal follows on an end.
            self.pause();
            let end = End {
                id: self.id,
                how: &how,
                remember: false,
            };
            // As `Inner::ask` does: what is answered at once is carried through no future. And
            // counted before it is made.
            let begun = {
                let mut answer = AnswerRoom::new();
                let (key, view) = (self.key.bytes(), self.view.take());
                match self
                    .set
                    .begin(Subject { key, view }, None, &end, &mut answer)
                {
                    Ok(begun) => match begun.told(&mut answer) {
                        Ok(Some(Reply::Settled(settled))) => {
                            self.over(Ended::by(&how));
                            return Ok(Settlement::new(settled, begun.view.keep()));
                        }
                        Ok(Some(_)) => Err(StoreError::Mismatch.into()),
                        Ok(None) => Ok(begun),
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(error),
                }
            };
            let mut unended = Unended {
                lease: self,
                is_over: false,
            };
            let ended = match begun {
                Ok(begun) => {
                    let (set, key) = (&unended.lease.set, unended.lease.key.bytes());
                    Box::pin(set.go_on(begun, key, None, end)).await
                }
                Err(error) => Err(error.into()),
            };
            if ended.is_ok() {
                unended.is_over = true;
                unended.lease.over(Ended::by(&how));
            }
            ended
        }
    }

    #[inline]
    fn over(&mut self, ended: Ended) {
        if let Some(member) = &self.member {
            member.forgets(self.id());
        }
        let counted = self.is_counted();
        self.is_over(ended);
        if !counted {
            return;
        }
        self.set.counters.ended(self.outcome);
        if let Some(member) = &self.member {
            member.ended(self.outcome);
        }
    }

    /// Its holder has ended it: it is not renewed any more.
    #[inline]
    fn is_over(&mut self, ended: Ended) {
        self.ended = Some(ended);
        if let Some(kept) = self.kept.get_mut() {
            kept.end();
        }
    }

    #[inline]
    fn check_live(&self) -> Result<(), LeaseError> {
        match self.ended {
            Some(ended) => Err(self.has_ended(ended)),
            None => Ok(()),
        }
    }

    #[cold]
    fn has_ended(&self, ended: Ended) -> LeaseError {
        LeaseError::Ended(match ended {
            Ended::Settled => LeaseEnd::Settled,
            Ended::Released => LeaseEnd::Released,
            Ended::Cancelled => LeaseEnd::Cancelled,
            // Nobody has it any more who could ask.
            Ended::HandedOver => LeaseEnd::By(self.expires_at()),
        })
    }

    /// `error` with what its holder knows and the store did not say: that its time was up.
    fn known(&self, error: LeaseError) -> LeaseError {
        match error {
            LeaseError::Ended(LeaseEnd::By(at)) if at == self.expires_at() => {
                LeaseError::Ended(LeaseEnd::Expired(at))
            }
            error => error,
        }
    }
}

/// How its holder has ended a lease.
#[derive(Clone, Copy)]
enum Ended {
    Settled,
    Released,
    Cancelled,
    HandedOver,
}

impl Ended {
    const fn by(how: &How<'_>) -> Self {
        match how {
            How::Settle(_) | How::Return(_) => Self::Settled,
            How::Release | How::Fail => Self::Released,
            How::Cancel => Self::Cancelled,
        }
    }
}

/// A lease whose end is under way: given up, or failed, it is kept alive as before.
struct Unended<'l> {
    lease: &'l mut Lease,
    is_over: bool,
}

impl Drop for Unended<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.lease.resume();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_counted() {
            return;
        }
        if std::thread::panicking() {
            self.fail();
        }
        let how = match self.failed {
            true => How::Fail,
            false => How::Release,
        };
        self.end_unseen(Ended::Released, how);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("id", &self.id())
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("granted_at", &self.granted_at)
            .field("expires_at", &self.expires_at())
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}

/// How a lease ended.
#[derive(Clone)]
pub struct Settlement {
    answer: store::Settlement,
    view: Arc<View>,
}

/// What one limit's share of a lease came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// What was taken at first.
    pub taken: Amount,
    /// What was used in the end.
    pub used: Amount,
}

impl Settlement {
    /// What was answered, taken from where it was written.
    #[inline(always)]
    pub(crate) fn new(answer: &mut store::Settlement, view: Arc<View>) -> Self {
        let answer = store::Settlement {
            expired: answer.expired,
            repeated: answer.repeated,
            uses: std::mem::take(&mut answer.uses),
        };
        Self { answer, view }
    }

    /// It had expired: slots were back already; the real use was charged.
    #[must_use]
    pub fn expired(&self) -> bool {
        self.answer.expired
    }

    /// This is the answer given before: nothing was changed this time.
    #[must_use]
    pub fn repeated(&self) -> bool {
        self.answer.repeated
    }

    /// What the share of the limit called `name` came to, if it was taken.
    #[must_use]
    pub fn usage<'n>(&self, name: impl Into<LimitName<'n>>) -> Option<Usage> {
        let uid = self.view.plan.limits()[self.view.find(name)?].uid;
        let share = self.answer.uses.iter().find(|share| share.uid == uid)?;
        Some(Usage {
            taken: share.taken,
            used: share.used,
        })
    }

    /// What each limit's share came to, by name.
    pub fn usages(&self) -> impl Iterator<Item = (&str, Usage)> {
        self.answer.uses.iter().filter_map(|share| {
            let position = self.view.plan.position(share.uid)?;
            let usage = Usage {
                taken: share.taken,
                used: share.used,
            };
            Some((self.view.limits[position].name(), usage))
        })
    }
}

impl fmt::Debug for Settlement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settlement")
            .field("expired", &self.expired())
            .field("repeated", &self.repeated())
            .field("usages", &self.usages().collect::<Vec<_>>())
            .finish()
    }
}

impl LimitSet {
    /// Settles a lease by its id, from wherever. A retry gets the first answer.
    ///
    /// # Errors
    /// As [`Lease::settle`]; [`LeaseError::Unknown`].
    pub fn settle<'k, 'u>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
        used: impl Into<Request<'u>>,
    ) -> Pending<impl Future<Output = Result<Settlement, LeaseError>> + Send> {
        self.end_by_id(key.into(), id, How::Settle(used.into()))
    }

    /// Releases a lease by its id. A retry gets the first answer.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`]; the store.
    pub fn release<'k>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
    ) -> Pending<impl Future<Output = Result<Settlement, LeaseError>> + Send> {
        self.end_by_id(key.into(), id, How::Release)
    }

    /// Gives back all of a lease by its id: the work did not start. A retry
    /// gets the first answer.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`]; the store.
    pub fn cancel<'k>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
    ) -> Pending<impl Future<Output = Result<Settlement, LeaseError>> + Send> {
        self.end_by_id(key.into(), id, How::Cancel)
    }

    fn end_by_id(
        &self,
        key: Key<'_>,
        id: LeaseId,
        how: How<'_>,
    ) -> Pending<impl Future<Output = Result<Settlement, LeaseError>> + Send> {
        Pending::new(self.inner().end_by_id(key.bytes(), id.0, how))
    }

    /// Moves the expiry of a lease to `ttl` from now; answers the new one.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`], [`LeaseError::Ended`]; the store.
    pub fn renew<'k>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
        ttl: Duration,
    ) -> Pending<impl Future<Output = Result<Timestamp, LeaseError>> + Send> {
        let key = key.into().bytes();
        Pending::new(self.inner().renew(key, id.0, ttl))
    }

    /// Changes how much a lease has taken, by its id; see [`Lease::adjust`].
    ///
    /// # Errors
    /// As [`Lease::adjust`]; [`LeaseError::Unknown`], [`LeaseError::Ended`].
    pub fn adjust<'k, 'u>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
        to: impl Into<Request<'u>>,
    ) -> Pending<impl Future<Output = Result<Decision, LeaseError>> + Send> {
        let (key, to) = (key.into().bytes(), to.into());
        Pending::new(async move { Ok(self.inner().adjust(key, id.0, &to, false).await?.0) })
    }

    /// As [`adjust`](Self::adjust), into debt if need be; see [`Lease::overdraw`].
    ///
    /// # Errors
    /// As [`adjust`](Self::adjust).
    pub fn overdraw<'k, 'u>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
        to: impl Into<Request<'u>>,
    ) -> Pending<impl Future<Output = Result<Decision, LeaseError>> + Send> {
        let (key, to) = (key.into().bytes(), to.into());
        Pending::new(async move { Ok(self.inner().adjust(key, id.0, &to, true).await?.0) })
    }
}
