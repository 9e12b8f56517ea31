//! The verbs for one key, without look-up.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use tidegate_contract::{HotCell, KeyPath, OwnedKey};
use tidegate_core::{Amount, Verdict};

use super::inner::Inner;
use super::verbs::LimitSet;
use crate::ask::Ask;
use crate::decision::{Admission, Decision};
use crate::error::Error;
use crate::pending::Pending;

/// One key of a set. Where the set is a single bucket, [`admit`](Self::admit)
/// is one compare-and-swap; everything else goes by the key as usual.
pub struct Handle {
    set: LimitSet,
    key: OwnedKey,
    /// The key's state, shared with the table, as of when the handle was made.
    cell: Option<Arc<HotCell>>,
    /// The cell that took its place after the limits had changed.
    renewed: RwLock<Option<Arc<HotCell>>>,
}

impl Handle {
    pub(super) fn new(set: LimitSet, key: &[u8]) -> Result<Self, Error> {
        let levels = set.inner().view.load().plan.levels();
        KeyPath::new(key, levels)?;
        let cell = pin(set.inner(), key);
        Ok(Self {
            set,
            key: OwnedKey::new(key),
            cell,
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
    ) -> Pending<impl Future<Output = Result<Verdict, Error>> + Send> {
        Pending::new(async move {
            if let Some(cell) = &self.cell
                && cost > 0
                && let Ok(verdict) = cell.admit(cost, self.set.inner().clock.now())
                && verdict != Verdict::Never
            {
                return Ok(verdict);
            }
            self.admit_slowly(cost).await
        })
    }

    #[cold]
    async fn admit_slowly(&self, cost: Amount) -> Result<Verdict, Error> {
        if let Some(verdict) = self.admit_renewed(cost) {
            return Ok(verdict);
        }
        self.set.admit(self.key.bytes(), cost).await
    }

    /// By the cell that took the first one's place, pinned now if that has gone, too.
    fn admit_renewed(&self, cost: Amount) -> Option<Verdict> {
        let inner = self.set.inner();
        let renewed = self.renewed.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = renewed.as_ref()
            && cost > 0
            && let Ok(verdict) = cell.admit(cost, inner.clock.now())
            && verdict != Verdict::Never
        {
            return Some(verdict);
        }
        let newest = renewed.as_ref().or(self.cell.as_ref());
        let retired = newest.is_some_and(|cell| cell.is_retired());
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
    pub fn check<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, Error>> + Send> {
        self.set.check(self.key.bytes(), ask)
    }

    /// As [`LimitSet::peek`].
    ///
    /// # Errors
    /// As [`LimitSet::peek`].
    pub fn peek<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, Error>> + Send> {
        self.set.peek(self.key.bytes(), ask)
    }

    /// As [`LimitSet::debit`].
    ///
    /// # Errors
    /// As [`LimitSet::debit`].
    pub fn debit<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, Error>> + Send> {
        self.set.debit(self.key.bytes(), ask)
    }

    /// As [`LimitSet::try_acquire`].
    ///
    /// # Errors
    /// As [`LimitSet::try_acquire`].
    pub fn try_acquire<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission, Error>> + Send> {
        self.set.try_acquire(self.key.bytes(), ask)
    }

    /// As [`LimitSet::acquire`].
    ///
    /// # Errors
    /// As [`LimitSet::acquire`].
    pub fn acquire<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission, Error>> + Send> {
        self.set.acquire(self.key.bytes(), ask)
    }

    /// As [`LimitSet::reset`].
    ///
    /// # Errors
    /// As [`LimitSet::reset`].
    pub fn reset(&self) -> Pending<impl Future<Output = Result<(), Error>> + Send> {
        self.set.reset(self.key.bytes())
    }
}

/// The key's cell, if the set is a single bucket and its store keeps it where
/// an atomic operation reaches it.
fn pin(inner: &Inner, key: &[u8]) -> Option<Arc<HotCell>> {
    let view = inner.view.load();
    let cells = inner.table.cells().filter(|_| view.lone)?;
    cells.pin(&view.plan, key, inner.clock.now())
}

/// A handle of its own on the same key.
impl Clone for Handle {
    fn clone(&self) -> Self {
        Self {
            set: self.set.clone(),
            key: self.key.clone(),
            cell: pin(self.set.inner(), self.key.bytes()),
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
        for cell in self.cell.take().into_iter().chain(renewed.take()) {
            if let Some(cells) = self.set.inner().table.cells() {
                cells.unpin(self.key.bytes(), cell);
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
