//! The revisions of a table's plan that were met lately.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::optimistic::revision::PlanRevision;
use crate::sync::Mutex;

/// So many revisions are remembered, and so many are followed one by one after a
/// row was left alone for as many changes of limits.
const MOST_KEPT: u32 = 64;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct KnownRevisions(Mutex<Arc<BTreeMap<u32, Arc<PlanRevision>>>>);

impl KnownRevisions {
    /// One that was written.
    pub fn note(&self, revision: &Arc<PlanRevision>) {
        let mut known = self.0.lock();
        let known = make_room(&mut known, 1);
        known.insert(revision.number, Arc::clone(revision));
    }

    /// Those that were read from the backend: what keys have for themselves is not read with
    /// a revision.
    pub fn learn(&self, revisions: Vec<PlanRevision>) {
        let mut known = self.0.lock();
        let known = make_room(&mut known, revisions.len());
        for mut revision in revisions {
            revision.knows_keys = false;
            known
                .entry(revision.number)
                .or_insert_with(|| Arc::new(revision));
        }
    }

    /// Every revision that is known.
    #[must_use]
    pub fn all(&self) -> Arc<BTreeMap<u32, Arc<PlanRevision>>> {
        Arc::clone(&self.0.lock())
    }
}

/// Before so many more are kept: the older ones go where they are too many.
fn make_room(
    known: &mut Arc<BTreeMap<u32, Arc<PlanRevision>>>,
    more: usize,
) -> &mut BTreeMap<u32, Arc<PlanRevision>> {
    let known = Arc::make_mut(known);
    while !known.is_empty() && known.len() + more > 4 * MOST_KEPT as usize {
        known.pop_first();
    }
    known
}

/// What is to be known where rows of the revisions `found` are: these, and every
/// one that led from the oldest of them to `own`.
pub(crate) fn leading_to(own: u32, found: &[u32]) -> Vec<u32> {
    if found.iter().all(|&number| number == own) {
        return Vec::new();
    }
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
