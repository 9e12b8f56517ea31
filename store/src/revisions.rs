//! By what limits a process decides about one table: each change of them becomes a revision
//! of the plan in the table's store, in order, before anything is decided by it.
//!
//! No I/O is here: who has a store writes [`next_change`](Revisions::next_change) there, and
//! says by [`written`](Revisions::written) what the store knows the plan by.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::{Bounds, Timestamp};

use crate::adopted::Adopted;
use crate::error::StoreError;
use crate::owned::OwnedKey;
use crate::plan::Plan;
use crate::sync::Mutex;

/// A change of limits that is to become a revision.
#[derive(Clone, Debug)]
pub struct PlanChange {
    /// The limits from then on.
    pub plan: Arc<Plan>,
    /// When they came into force, by the caller's clock.
    pub adopted: Adopted,
    /// The limits before; none if it is the first since the table was opened.
    pub before: Option<Arc<Plan>>,
}

impl PlanChange {
    /// The first since the table was opened: no change if nothing differs.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.before.is_none()
    }

    /// Another version of the limits before it, in which keys have others for themselves.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        let before = self.before.as_ref();
        before.is_some_and(|before| self.plan.goes_on_from(before))
    }

    /// The keys whose rows go by other limits of their own now, `most` of them.
    #[must_use]
    pub fn touched(&self, most: usize) -> Vec<OwnedKey> {
        let Some(before) = &self.before else {
            return Vec::new();
        };
        let keys: Vec<_> = match self.goes_on() {
            true => self.plan.differing_from(before),
            false => {
                let ours = self.plan.overrides();
                let gone = before.overrides().iter().map(|(key, _)| key);
                let gone = gone.filter(|key| ours.get(key.bytes()).is_none());
                ours.iter().map(|(key, _)| key).chain(gone).collect()
            }
        };
        keys.into_iter().take(most).cloned().collect()
    }
}

/// A plan that decides, and what its store knows it by: a number, or whatever else.
#[derive(Clone, Debug)]
pub struct Revision<N> {
    /// The plan.
    pub plan: Arc<Plan>,
    /// What the store knows it by.
    pub known: N,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Revisions<N>(Mutex<RevisionState<N>>);

#[derive(Debug)]
struct RevisionState<N> {
    newest: Option<Arc<Plan>>,
    /// The one that was written last.
    last: Option<Revision<N>>,
    /// What is to be written before anything is decided.
    changes: VecDeque<PlanChange>,
}

impl<N> Default for Revisions<N> {
    fn default() -> Self {
        Self(Mutex::new(RevisionState {
            newest: None,
            last: None,
            changes: VecDeque::new(),
        }))
    }
}

impl<N: Clone> Revisions<N> {
    /// Takes note that `plan` decides as of `now`.
    ///
    /// # Errors
    /// [`StoreError::StalePlan`]: a newer one does already.
    pub fn follow(
        &self,
        plan: &Arc<Plan>,
        now: Timestamp,
        calendars: &[Option<Bounds>],
    ) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        if let Some(newest) = &state.newest {
            if Arc::ptr_eq(newest, plan) {
                return Ok(());
            }
            if plan.version() < newest.version() {
                return Err(StoreError::StalePlan);
            }
        }
        let before = state.newest.replace(Arc::clone(plan));
        let calendars = calendars.to_vec();
        state.changes.push_back(PlanChange {
            plan: Arc::clone(plan),
            adopted: Adopted { at: now, calendars },
            before,
        });
        Ok(())
    }

    /// The limits that decide, if any do yet.
    #[must_use]
    pub fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.0.lock().newest.clone()
    }

    /// The newest plan's revision, if nothing is to be written first.
    #[must_use]
    pub fn settled(&self) -> Option<Revision<N>> {
        self.0.lock().settled().cloned()
    }

    /// What the store knows `plan` by, if it is decided by and nothing is to be written
    /// first.
    #[must_use]
    pub fn settled_on(&self, plan: &Arc<Plan>) -> Option<N> {
        let state = self.0.lock();
        let revision = state.settled()?;
        Arc::ptr_eq(&revision.plan, plan).then(|| revision.known.clone())
    }

    /// The revision that was written last.
    #[must_use]
    pub fn last(&self) -> Option<Revision<N>> {
        self.0.lock().last.clone()
    }

    /// The change that is to be written next. One at a time asks, writes it, and says so by
    /// [`written`](Self::written).
    #[must_use]
    pub fn next_change(&self) -> Option<PlanChange> {
        self.0.lock().changes.front().cloned()
    }

    /// The change that was [next](Self::next_change) is this revision.
    pub fn written(&self, revision: Revision<N>) {
        let mut state = self.0.lock();
        state.changes.pop_front();
        state.last = Some(revision);
    }
}

impl<N> RevisionState<N> {
    fn settled(&self) -> Option<&Revision<N>> {
        let last = self.last.as_ref();
        last.filter(|_| self.changes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Bucket, Payment, Rule, Span};

    use super::*;
    use crate::plan::PlanLimit;

    /// Of this version: one bucket.
    fn plan(version: u64) -> Arc<Plan> {
        let limit = PlanLimit {
            name: "r".into(),
            uid: 0,
            rule: bucket(5),
            level: 0,
            payment: Payment::Prepaid,
            shadow: false,
            refund_on_expiry: false,
            adaptive: None,
        };
        Arc::new(Plan::new(version, 1, vec![limit], Span::from_secs(60)))
    }

    fn bucket(burst: u64) -> Rule {
        Rule::Bucket(Bucket::new(5, Span::SECOND, burst).expect("a bucket"))
    }

    /// The same limits, but that this key has others.
    fn going_on(from: &Plan, version: u64, key: &[u8], burst: u64) -> Arc<Plan> {
        let own = Arc::new(from.variant(|_| Some(bucket(burst))));
        let own = [(OwnedKey::new(key), own)].into_iter().collect();
        Arc::new(from.clone().going_on(version, own))
    }

    fn follow(revisions: &Revisions<u32>, plan: &Arc<Plan>) -> Result<(), StoreError> {
        revisions.follow(plan, Timestamp::MIN, &[])
    }

    #[test]
    fn nothing_is_settled_before_every_change_is_written_in_order() {
        let (revisions, plans) = (Revisions::default(), [0, 1, 2].map(plan));
        assert!(revisions.next_change().is_none() && revisions.settled().is_none());
        for plan in &plans {
            follow(&revisions, plan).expect("newer");
            follow(&revisions, plan).expect("the same");
        }
        assert_eq!(follow(&revisions, &plans[1]), Err(StoreError::StalePlan));
        for (number, plan) in (0..).zip(&plans) {
            assert!(revisions.settled().is_none());
            let change = revisions.next_change().expect("it is not written");
            assert!(Arc::ptr_eq(&change.plan, plan));
            assert_eq!(change.is_first(), number == 0);
            let plan = change.plan;
            revisions.written(Revision {
                plan,
                known: number,
            });
        }
        assert!(revisions.next_change().is_none());
        assert_eq!(revisions.settled_on(&plans[2]), Some(2));
        assert_eq!(revisions.settled_on(&plans[1]), None);
    }

    #[test]
    fn a_change_touches_the_keys_whose_own_limits_differ() {
        let revisions = Revisions::<u32>::default();
        let first = plan(0);
        let with_a = going_on(&first, 1, b"a", 7);
        let with_b = going_on(&with_a, 2, b"b", 7);
        let steps: [(_, _, &[&[u8]]); 4] = [
            (&first, false, &[]),
            (&with_a, true, &[b"a"]),
            // `a` has none of its own any more.
            (&with_b, true, &[b"a", b"b"]),
            // Other limits altogether.
            (&plan(3), false, &[b"b"]),
        ];
        for (plan, goes_on, expected) in steps {
            follow(&revisions, plan).expect("newer");
            let change = revisions.next_change().expect("it is not written");
            let mut touched = change.touched(9);
            touched.sort_by(|one, other| one.bytes().cmp(other.bytes()));
            let touched: Vec<_> = touched.iter().map(OwnedKey::bytes).collect();
            assert_eq!((change.goes_on(), &*touched), (goes_on, expected));
            assert_eq!(change.touched(1).len(), expected.len().min(1));
            let plan = change.plan;
            revisions.written(Revision { plan, known: 0 });
        }
    }
}
