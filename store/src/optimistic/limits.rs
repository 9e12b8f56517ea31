//! By what limits this process decides: the newest edition, the changes that are
//! not written yet, and the editions that were met lately.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::sync::Mutex;
use tidegate_core::{Bounds, Timestamp};

use crate::adopted::Adopted;
use crate::error::StoreError;
use crate::optimistic::edition::{Change, Edition};
use crate::plan::Plan;

/// So many editions are remembered, and so many are followed one by one after a
/// row was left alone for as many changes of limits.
const MOST_KEPT: u32 = 64;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Limits(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    newest: Option<Arc<Plan>>,
    /// The newest plan's edition, once it is written.
    edition: Option<Arc<Edition>>,
    /// What is to be written before anything is decided.
    changes: VecDeque<Change>,
    known: Arc<BTreeMap<u32, Arc<Edition>>>,
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
        inner.edition = None;
        inner.changes.push_back(change);
        Ok(())
    }

    /// The limits that decide, if any do yet.
    #[must_use]
    pub fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.0.lock().newest.clone()
    }

    /// The newest plan's edition, if nothing is to be written first.
    #[must_use]
    pub fn settled(&self) -> Option<Arc<Edition>> {
        let inner = self.0.lock();
        let edition = inner.edition.as_ref().filter(|_| inner.changes.is_empty());
        edition.map(Arc::clone)
    }

    /// The change that is to be written next. One task at a time asks, writes it,
    /// and says so by [`written`](Self::written).
    #[must_use]
    pub fn next_change(&self) -> Option<Change> {
        self.0.lock().changes.front().cloned()
    }

    /// The change that was [next](Self::next_change) is this edition.
    pub fn written(&self, edition: Edition) {
        let mut inner = self.0.lock();
        inner.changes.pop_front();
        let edition = Arc::new(edition);
        inner.make_room(1);
        Arc::make_mut(&mut inner.known).insert(edition.number, Arc::clone(&edition));
        inner.edition = Some(edition);
    }

    /// Editions that were read from the backend.
    pub fn learn(&self, editions: Vec<Edition>) {
        let mut inner = self.0.lock();
        inner.make_room(editions.len());
        let known = Arc::make_mut(&mut inner.known);
        for edition in editions {
            known
                .entry(edition.number)
                .or_insert_with(|| Arc::new(edition));
        }
    }

    /// Every edition that is known.
    #[must_use]
    pub fn known(&self) -> Arc<BTreeMap<u32, Arc<Edition>>> {
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

/// What is to be known where rows of the editions `found` are: these, and every
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
