//! What is given back to the store, again if it does not answer.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_store::core::{Amount, Bounds};
use tidegate_store::sync::Mutex;
use tidegate_store::{Ending, OwnedPath, Plan, PlanLimit, StoreError, Verb};

use crate::calendars::Calendars;
use crate::grants::Grant;

/// The most that wait to be given back again. The oldest is then left to expire.
const MOST_KEPT: usize = 1_024;

/// So often it is tried: after that it is left to expire.
const MOST_TRIES: u8 = 8;

/// One lease to end.
#[derive(Clone, Debug)]
pub(crate) struct Return {
    pub(crate) path: OwnedPath,
    id: u128,
    /// What was spent, and by the limits of which plan; `None`: nobody knows whether it was
    /// granted at all.
    spent: Option<(Box<[Amount]>, Arc<Plan>)>,
    /// Where what was spent beyond what was granted is charged.
    calendars: Calendars,
    tries: u8,
}

impl Return {
    /// Of a grant of which something is left.
    pub(crate) fn of(path: &OwnedPath, grant: &Grant) -> Self {
        Self {
            path: path.clone(),
            id: grant.id,
            spent: Some((grant.units.spent().into(), Arc::clone(&grant.plan))),
            calendars: Calendars::default(),
            tries: 0,
        }
    }

    /// Of a lease of which so much was used by the limits of `plan`, more than was granted maybe.
    pub(crate) fn charging(
        (path, calendars): (&OwnedPath, &Calendars),
        id: u128,
        (used, plan): (Box<[Amount]>, &Arc<Plan>),
    ) -> Self {
        Self {
            path: path.clone(),
            id,
            spent: Some((used, Arc::clone(plan))),
            calendars: calendars.clone(),
            tries: 0,
        }
    }

    /// Of a grant whose answer was lost.
    pub(crate) fn lost(path: &OwnedPath, id: u128) -> Self {
        Self {
            path: path.clone(),
            id,
            spent: None,
            calendars: Calendars::default(),
            tries: 0,
        }
    }

    /// What is said of the calendars of `plan`.
    pub(crate) fn calendars(&self, plan: &Plan) -> Box<[Option<Bounds>]> {
        self.calendars.in_order_of(plan)
    }

    /// The verb that ends it, by the limits of `plan`.
    pub(crate) fn lend<T>(&self, plan: &Plan, act: impl FnOnce(Verb<'_>) -> T) -> T {
        let used: Vec<Option<Amount>> = match &self.spent {
            None => Vec::new(),
            Some((spent, by)) => {
                let used = |limit: &PlanLimit| {
                    let position = by.position(limit.uid)?;
                    let spent = spent.get(position).copied().unwrap_or(0);
                    (!limit.rule.is_held()).then_some(spent)
                };
                plan.limits().iter().map(used).collect()
            }
        };
        act(Verb::End {
            id: self.id,
            ending: match self.spent {
                Some(_) => Ending::Settle(&used),
                None => Ending::Cancel,
            },
            remember: false,
        })
    }
}

/// Those that are to be tried again.
#[derive(Debug, Default)]
pub(crate) struct Returns(Mutex<VecDeque<Return>>);

impl Returns {
    /// Tries it again later, if `error` leaves a hope.
    pub(crate) fn failed(&self, mut one: Return, error: &StoreError) {
        let is_over = matches!(
            error,
            StoreError::UnknownLease | StoreError::LeaseEnded(_) | StoreError::Mismatch
        );
        one.tries += 1;
        if !is_over && one.tries < MOST_TRIES {
            self.add(one);
        }
    }

    pub(crate) fn add(&self, one: Return) {
        let mut all = self.0.lock();
        if all.len() >= MOST_KEPT {
            all.pop_front();
        }
        all.push_back(one);
    }

    pub(crate) fn take(&self) -> VecDeque<Return> {
        std::mem::take(&mut self.0.lock())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
