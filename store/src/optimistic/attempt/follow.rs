//! Changes of limits, followed revision by revision: what has expired by a change
//! did so under the limits of its time.

use std::sync::Arc;

use crate::error::StoreError;
use tidegate_core::{DecodeError, Timestamp};

use super::{Attempt, Need};
use crate::optimistic::clock::Clock;
use crate::optimistic::known_revisions;
use crate::optimistic::revision::PlanRevision;

impl Attempt<'_> {
    /// Follows the changes up to the command's own revision.
    pub(super) fn follow_changes(&mut self, now: Timestamp) -> Result<(), Need> {
        let leading = self.leading();
        self.check_rows()?;
        for pair in leading.windows(2) {
            let (old, new) = (&pair[0], &pair[1]);
            if self.leases.has_any() && self.head.followed <= old.number {
                let at = Clock::follows(new.adopted.at, Timestamp::MIN, now);
                self.retire(old, at)?;
                self.head.followed = new.number;
            }
            for row in &mut self.rows.all {
                row.carry_over(old, new, now);
            }
        }
        Ok(())
    }

    /// Rows that a newer revision wrote, for a process that knows it not yet.
    pub(super) fn come_back(&mut self, now: Timestamp) {
        let own = Arc::clone(&self.own);
        let newer: Vec<_> = self.known.range(own.number + 1..).collect();
        for (&number, revision) in newer {
            let met = self.rows.all.iter_mut();
            for row in met.filter(|row| row.revision == Some(number)) {
                row.adopt((revision, &own), (now, &self.request.calendars));
            }
        }
    }

    /// Rows whose keys have other limits for themselves than when another process,
    /// or this one before it was started again, wrote them by the same revision.
    pub(super) fn agree_about_keys(&mut self, now: Timestamp) {
        let own = Arc::clone(&self.own);
        let met = self.rows.all.iter_mut();
        let by_others = met.filter(|row| row.revision == Some(own.number) && !row.is_by(&own));
        for row in by_others {
            row.adopt((&own, &own), (now, &self.request.calendars));
        }
    }

    /// The revisions that lead from the oldest that is met to the command's own.
    fn leading(&self) -> Vec<Arc<PlanRevision>> {
        let mut met = self.rows.revisions();
        if self.leases.has_any() {
            met.push(self.head.followed);
        }
        met.retain(|number| *number < self.own.number);
        let numbers = known_revisions::leading_to(self.own.number, &met);
        let known = numbers.iter().filter_map(|number| self.known.get(number));
        let own = std::iter::once(&self.own);
        known.chain(own).map(Arc::clone).collect()
    }

    /// Rows are read by the plan that wrote them, or refused.
    fn check_rows(&self) -> Result<(), StoreError> {
        for row in &self.rows.all {
            let Some(number) = row.revision else { continue };
            let plan = match number == self.own.number {
                true => Some(&self.own.plan),
                false => self.known.get(&number).map(|revision| &revision.plan),
            };
            if !plan.is_some_and(|plan| row.fits(plan)) {
                return Err(DecodeError::Corrupt("a row does not go with its limits").into());
            }
        }
        Ok(())
    }
}
