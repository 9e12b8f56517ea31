//! The verbs for one key, without look-up.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tidegate_core::{Amount, BucketLevel, MAX_AMOUNT, Timestamp, Verdict};
use tidegate_store::{AtomicBucket, KeyPath, OwnedKey};

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
/// [`check`](Self::check) are one compare-and-swap; everything else goes by the key as
/// usual.
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
    bucket: Arc<AtomicBucket>,
    view: Arc<View>,
}

impl Pinned {
    /// The verdict, if the cell gives one.
    #[inline]
    fn admit(&self, cost: Amount, inner: &Inner) -> Option<Verdict> {
        if !(1..=MAX_AMOUNT).contains(&cost) {
            return None;
        }
        self.bucket.admit(cost, inner.clock.now()).ok()
    }

    /// The verdict with what is used after it, and when, if the cell gives one.
    #[inline(always)]
    fn ask(
        &self,
        request: &Request<'_>,
        inner: &Inner,
    ) -> Option<(Verdict, BucketLevel, Timestamp)> {
        let amount = self.view.lone_amount(request)?;
        let now = inner.clock.now();
        let (verdict, level) = self.bucket.check(amount, now).ok()?;
        Some((verdict, level, now))
    }

    /// The decision, if the cell gives one; counted.
    fn check(&self, request: &Request<'_>, inner: &Inner) -> Option<Decision> {
        Some(self.counted(self.ask(request, inner)?, inner))
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
        let retired = newest.is_some_and(|pinned| pinned.bucket.is_retired());
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
/// an atomic operation reaches it.
fn pin(inner: &Inner, key: &[u8]) -> Option<Pinned> {
    let view = inner.view.load_full();
    let buckets = inner.table.atomic_buckets().filter(|_| view.lone)?;
    let bucket = buckets.pin(&view.plan, key, inner.clock.now())?;
    Some(Pinned { bucket, view })
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
            if let Some(buckets) = self.set.inner().table.atomic_buckets() {
                buckets.unpin(self.key.bytes(), pinned.bucket);
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
