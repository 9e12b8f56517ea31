//! The verbs for one key, without look-up.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tidegate_core::{Amount, BucketLevel, MAX_AMOUNT, Timestamp, Verdict};
use tidegate_store::{AtomicBucket, KeyPath, OwnedKey};
use tidegate_tier::{GrantLevel, PinnedKey};

use super::inner::{Inner, LimitSet};
use super::subject::Subject;
use super::view::View;
use crate::admission::Admission;
use crate::decision::Decision;
use crate::error::{DecisionError, RequestError};
use crate::key::Key;
use crate::pending::Pending;
use crate::request::Request;

/// One key of a set. Where the set is a single bucket, [`admit`](Self::admit) and
/// [`check`](Self::check) are one compare-and-swap, and in a [tier](crate::Tier::leased) they take
/// what a grant covers without a look-up; everything else goes by the key as usual.
pub struct Handle {
    set: LimitSet,
    key: OwnedKey,
    /// The limits as of when it was made: while they are the newest, nobody looks for those.
    view: Arc<View>,
    /// The key's state, shared with the table, as of when the handle was made.
    pinned: Option<Pinned>,
    /// What took its place after the limits had changed.
    renewed: RwLock<Option<Pinned>>,
}

/// A key's state, and the limits by which it decides.
struct Pinned {
    state: State,
    view: Arc<View>,
}

/// Where a key's state is.
enum State {
    /// In its store, which keeps a single bucket.
    Bucket(Arc<AtomicBucket>),
    /// In the grants of its tier.
    Grants(PinnedKey),
}

impl Pinned {
    /// The verdict, if the cell gives one.
    #[inline]
    fn admit(&self, cost: Amount, inner: &Inner) -> Option<Verdict> {
        if !(1..=MAX_AMOUNT).contains(&cost) {
            return None;
        }
        match &self.state {
            State::Bucket(bucket) => bucket.admit(cost, inner.clock.now()).ok(),
            State::Grants(key) => {
                if !inner.is_newest(&self.view) {
                    return None;
                }
                let (version, now) = (self.view.version(), inner.clock.now());
                let request = Request::from(cost);
                let spent = match self.view.lone_amount(&request) {
                    Some(amount) => key.spend(version, &[amount], now),
                    None => key.spend(version, &self.view.amounts(&request).ok()?, now),
                };
                spent.map(|_| Verdict::Admit)
            }
        }
    }

    /// The verdict with what is used after it, and when, if the cell gives one.
    #[inline(always)]
    fn ask(
        &self,
        request: &Request<'_>,
        inner: &Inner,
    ) -> Option<(Verdict, BucketLevel, Timestamp)> {
        let State::Bucket(bucket) = &self.state else {
            return None;
        };
        let amount = self.view.lone_amount(request)?;
        let now = inner.clock.now();
        let (verdict, level) = bucket.check(amount, now).ok()?;
        Some((verdict, level, now))
    }

    /// What the lone limit's grant has left and when, if it covers `request`.
    #[inline(always)]
    fn spend(
        &self,
        request: &Request<'_>,
        inner: &Inner,
    ) -> Option<((bool, GrantLevel), Timestamp)> {
        let State::Grants(key) = &self.state else {
            return None;
        };
        let amount = self.view.lone_amount(request)?;
        if !inner.is_newest(&self.view) {
            return None;
        }
        let now = inner.clock.now();
        let spent = key.spend(self.view.version(), &[amount], now)?;
        Some(((spent.shadowed(), spent.level(0)), now))
    }

    /// The decision on any limits, if a grant covers `request`; counted.
    #[inline(never)]
    fn by_grant(&self, request: &Request<'_>, inner: &Inner) -> Option<Decision> {
        let State::Grants(key) = &self.state else {
            return None;
        };
        if !inner.is_newest(&self.view) {
            return None;
        }
        let amounts = self.view.amounts(request).ok()?;
        let now = inner.clock.now();
        let spent = key.spend(self.view.version(), &amounts, now)?;
        inner.counters.admitted();
        Some(Decision::of_spent(&spent, &self.view, now))
    }

    /// The decision, if the cell gives one; counted.
    fn check(&self, request: &Request<'_>, inner: &Inner) -> Option<Decision> {
        match &self.state {
            State::Bucket(_) => Some(self.counted(self.ask(request, inner)?, inner)),
            State::Grants(_) => self.by_grant(request, inner),
        }
    }

    /// Whether it decides nothing any more.
    fn is_retired(&self, inner: &Inner) -> bool {
        match &self.state {
            State::Bucket(bucket) => bucket.is_retired(),
            State::Grants(_) => !inner.is_version(&self.view),
        }
    }

    /// The decision that was given; counted.
    #[cold]
    fn counted(
        &self,
        (verdict, level, now): (Verdict, BucketLevel, Timestamp),
        inner: &Inner,
    ) -> Decision {
        let decision = Decision::of_one(verdict, level, Arc::clone(&self.view), now);
        inner.counters.decided(&decision);
        decision
    }
}

impl LimitSet {
    /// The verbs for one key, without look-up.
    ///
    /// # Errors
    /// A key that cannot be one.
    pub fn handle<'k>(&self, key: impl Into<Key<'k>>) -> Result<Handle, RequestError> {
        Handle::new(self.clone(), key.into().bytes())
    }
}

impl Handle {
    pub(super) fn new(set: LimitSet, key: &[u8]) -> Result<Self, RequestError> {
        let view = set.inner().view.load_full();
        let path = KeyPath::new(key, view.plan.levels())?;
        set.inner().versions.check_depth(&path, &view)?;
        let pinned = pin(set.inner(), key);
        Ok(Self {
            set,
            view,
            key: OwnedKey::new(key),
            pinned,
            renewed: RwLock::new(None),
        })
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.key.bytes()
    }

    /// The set.
    #[must_use]
    pub const fn set(&self) -> &LimitSet {
        &self.set
    }

    /// As [`LimitSet::admit`].
    ///
    /// # Errors
    /// As [`LimitSet::admit`].
    #[inline]
    pub fn admit(
        &self,
        cost: Amount,
    ) -> Pending<impl Future<Output = Result<Verdict, DecisionError>> + Send> {
        Pending::new(async move {
            if let Some(pinned) = &self.pinned
                && let Some(verdict) = pinned.admit(cost, self.set.inner())
            {
                return Ok(verdict);
            }
            Box::pin(self.admit_slowly(cost)).await
        })
    }

    #[cold]
    async fn admit_slowly(&self, cost: Amount) -> Result<Verdict, DecisionError> {
        if let Some(verdict) = self.by_renewed(|pinned, inner| pinned.admit(cost, inner)) {
            return Ok(verdict);
        }
        self.set.admit(self.key.bytes(), cost).await
    }

    /// By the cell that took the first one's place, pinned now if that has gone, too.
    fn by_renewed<T>(&self, decide: impl FnOnce(&Pinned, &Inner) -> Option<T>) -> Option<T> {
        let inner = self.set.inner();
        let renewed = self.renewed.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(pinned) = renewed.as_ref()
            && let Some(decided) = decide(pinned, inner)
        {
            return Some(decided);
        }
        let newest = renewed.as_ref().or(self.pinned.as_ref());
        let retired = newest.is_some_and(|pinned| pinned.is_retired(inner));
        drop(renewed);
        if retired {
            let mut renewed = self.renewed.write().unwrap_or_else(PoisonError::into_inner);
            *renewed = pin(inner, self.key.bytes());
        }
        None
    }

    /// As [`LimitSet::check`].
    ///
    /// # Errors
    /// As [`LimitSet::check`].
    #[inline]
    pub fn check<'a>(
        &self,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, DecisionError>> + Send> {
        let request = request.into();
        Pending::new(async move {
            if let Some(pinned) = &self.pinned
                && let Some((verdict, level, now)) = pinned.ask(&request, self.set.inner())
            {
                if !verdict.admitted() {
                    return Ok(pinned.counted((verdict, level, now), self.set.inner()));
                }
                // Before it is made, so that it is not looked at where it was just written.
                self.set.inner().counters.admitted();
                let view = Arc::clone(&pinned.view);
                return Ok(Decision::of_one(verdict, level, view, now));
            }
            if let Some(pinned) = &self.pinned
                && let Some((told, now)) = pinned.spend(&request, self.set.inner())
            {
                self.set.inner().counters.admitted();
                return Ok(Decision::of_grant(told, Arc::clone(&pinned.view), now));
            }
            if let Some(pinned) = &self.pinned
                && let Some(decision) = pinned.by_grant(&request, self.set.inner())
            {
                return Ok(decision);
            }
            Box::pin(self.check_slowly(request)).await
        })
    }

    #[cold]
    async fn check_slowly(&self, request: Request<'_>) -> Result<Decision, DecisionError> {
        if let Some(decision) = self.by_renewed(|pinned, inner| pinned.check(&request, inner)) {
            return Ok(decision);
        }
        self.set.check(self.key.bytes(), request).await
    }

    /// As [`LimitSet::peek`].
    ///
    /// # Errors
    /// As [`LimitSet::peek`].
    pub fn peek<'a>(
        &self,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, DecisionError>> + Send> {
        self.set.peek(self.key.bytes(), request)
    }

    /// As [`LimitSet::debit`].
    ///
    /// # Errors
    /// As [`LimitSet::debit`].
    pub fn debit<'a>(
        &self,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, DecisionError>> + Send> {
        self.set.debit(self.key.bytes(), request)
    }

    /// As [`LimitSet::try_acquire`].
    ///
    /// # Errors
    /// As [`LimitSet::try_acquire`].
    #[inline]
    pub fn try_acquire<'a>(
        &self,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission, DecisionError>> + Send> {
        self.acquire(request.into().within(Duration::ZERO))
    }

    /// As [`LimitSet::acquire`].
    ///
    /// # Errors
    /// As [`LimitSet::acquire`].
    #[inline]
    pub fn acquire<'a>(
        &self,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission, DecisionError>> + Send> {
        let (key, view) = (self.key.bytes(), Some(Arc::clone(&self.view)));
        let inner = self.set.inner();
        Pending::new(inner.acquire(Subject { key, view }, request.into()))
    }

    /// As [`LimitSet::reset`].
    ///
    /// # Errors
    /// As [`LimitSet::reset`].
    pub fn reset(&self) -> Pending<impl Future<Output = Result<(), DecisionError>> + Send> {
        self.set.reset(self.key.bytes())
    }
}

/// The key's cell, if the set is a single bucket and its store keeps it where
/// an atomic operation reaches it; in a tier its grants, if it has all levels that there are.
fn pin(inner: &Inner, key: &[u8]) -> Option<Pinned> {
    let view = inner.view.load_full();
    let state = match &inner.tier {
        Some(tier) => {
            let path = KeyPath::new(key, view.plan.levels()).ok()?;
            if path.depth() < view.plan.levels() {
                return None;
            }
            State::Grants(tier.pin(&path, &view.whole)?)
        }
        None => {
            let buckets = inner.table.atomic_buckets().filter(|_| view.lone)?;
            State::Bucket(buckets.pin(&view.plan, key, inner.clock.now())?)
        }
    };
    Some(Pinned { state, view })
}

/// A handle of its own on the same key.
impl Clone for Handle {
    fn clone(&self) -> Self {
        Self {
            set: self.set.clone(),
            key: self.key.clone(),
            view: self.set.inner().view.load_full(),
            pinned: pin(self.set.inner(), self.key.bytes()),
            renewed: RwLock::new(None),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let renewed = self
            .renewed
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for pinned in self.pinned.take().into_iter().chain(renewed.take()) {
            if let State::Bucket(bucket) = pinned.state
                && let Some(buckets) = self.set.inner().table.atomic_buckets()
            {
                buckets.unpin(self.key.bytes(), bucket);
            }
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("set", &self.set)
            .finish_non_exhaustive()
    }
}
