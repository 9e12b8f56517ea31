//! By what limits this process decides: the newest revision, the changes that are
//! not written yet, and the revisions that were met lately.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::sync::Mutex;
use tidegate_core::{Bounds, Timestamp};

use crate::adopted::Adopted;
use crate::error::StoreError;
use crate::optimistic::revision::{Change, PlanRevision};
use crate::plan::Plan;

/// So many revisions are remembered, and so many are followed one by one after a
/// row was left alone for as many changes of limits.
const MOST_KEPT: u32 = 64;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Limits(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    newest: Option<Arc<Plan>>,
    /// The newest plan's revision, once it is written.
    revision: Option<Arc<PlanRevision>>,
    /// What is to be written before anything is decided.
    changes: VecDeque<Change>,
    known: Arc<BTreeMap<u32, Arc<PlanRevision>>>,
}

impl Limits {
    /// Takes note of a change of limits.
    ///
    /// # Errors
    /// [`StoreError::StalePlan`]: a newer plan is here already.
    pub fn follow(
        &self,
        plan: &Arc<Plan>,
        now: Timestamp,
        calendars: &[Option<Bounds>],
    ) -> Result<(), StoreError> {
        let mut inner = self.0.lock();
        if let Some(newest) = &inner.newest {
            if Arc::ptr_eq(newest, plan) {
                return Ok(());
            }
            if plan.version() < newest.version() {
                return Err(StoreError::StalePlan);
            }
        }
        let change = Change {
            plan: Arc::clone(plan),
            adopted: Adopted {
                at: now,
                calendars: calendars.to_vec(),
            },
            is_first: inner.newest.is_none(),
        };
        inner.newest = Some(Arc::clone(plan));
        inner.revision = None;
        inner.changes.push_back(change);
        Ok(())
    }

    /// The limits that decide, if any do yet.
    #[must_use]
    pub fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.0.lock().newest.clone()
    }

    /// The newest plan's revision, if nothing is to be written first.
    #[must_use]
    pub fn settled(&self) -> Option<Arc<PlanRevision>> {
        let inner = self.0.lock();
        let revision = inner.revision.as_ref().filter(|_| inner.changes.is_empty());
        revision.map(Arc::clone)
    }

    /// The change that is to be written next. One task at a time asks, writes it,
    /// and says so by [`written`](Self::written).
    #[must_use]
    pub fn next_change(&self) -> Option<Change> {
        self.0.lock().changes.front().cloned()
    }

    /// The change that was [next](Self::next_change) is this revision.
    pub fn written(&self, revision: PlanRevision) {
        let mut inner = self.0.lock();
        inner.changes.pop_front();
        let revision = Arc::new(revision);
        inner.make_room(1);
        Arc::make_mut(&mut inner.known).insert(revision.number, Arc::clone(&revision));
        inner.revision = Some(revision);
    }

    /// Revisions that were read from the backend.
    pub fn learn(&self, revisions: Vec<PlanRevision>) {
        let mut inner = self.0.lock();
        inner.make_room(revisions.len());
        let known = Arc::make_mut(&mut inner.known);
        for revision in revisions {
            known
                .entry(revision.number)
                .or_insert_with(|| Arc::new(revision));
        }
    }

    /// Every revision that is known.
    #[must_use]
    pub fn known(&self) -> Arc<BTreeMap<u32, Arc<PlanRevision>>> {
        Arc::clone(&self.0.lock().known)
    }
}

impl Inner {
    /// Before so many more are kept: the older ones go where they are too many.
    fn make_room(&mut self, more: usize) {
        let known = Arc::make_mut(&mut self.known);
        while !known.is_empty() && known.len() + more > 4 * MOST_KEPT as usize {
            known.pop_first();
        }
    }
}

/// What is to be known where rows of the revisions `found` are: these, and every
/// one that led from the oldest of them to `own`.
pub(crate) fn leading_to(own: u32, found: &[u32]) -> Vec<u32> {
    let older = found.iter().copied().filter(|&number| number < own);
    let mut wanted: Vec<u32> = older.collect();
    if let Some(&oldest) = wanted.iter().min() {
        wanted.extend(oldest.max(own.saturating_sub(MOST_KEPT))..own);
    }
    wanted.extend(found.iter().copied().filter(|&number| number > own));
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}
