//! How much of a limit may be out at nodes, whatever their number: held at the store, as
//! slots whose lease is the grant. For each limit that is bounded so the plan has one more,
//! its *slots*, of which grants take as much as of the limit, and nothing else takes any.

use smallvec::SmallVec;
use tidegate_store::core::Rule;
use tidegate_store::{Decision, Partial, Plan, PlanLimit};

use crate::grants::Wish;

/// What the slots of a limit are called after its name. No name in a policy file has a space.
const SUFFIX: &str = " (outstanding)";

/// What the slots of the limit called `name` are called.
pub(crate) fn name_of_slots(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

/// Whether `limit` is the slots of another.
pub(crate) fn is_slots(limit: &PlanLimit) -> bool {
    matches!(limit.rule, Rule::Slots(_)) && limit.name.ends_with(SUFFIX)
}

/// The positions in a plan of limits whose units out are bounded, each with that of its slots.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outstanding(SmallVec<[(usize, usize); 2]>);

impl Outstanding {
    /// Those of `plan`.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let slots = plan.limits().iter().enumerate();
        let slots = slots.filter(|(_, limit)| is_slots(limit));
        let pairs = slots.filter_map(|(at, slots)| {
            let of = slots.name.strip_suffix(SUFFIX)?;
            let limit = plan.limits().iter().position(|limit| *limit.name == *of)?;
            Some((limit, at))
        });
        Self(pairs.collect())
    }

    /// Has as many slots asked for as units.
    pub fn put_into(&self, wish: &mut Wish) {
        for amounts in [&mut wish.amounts, &mut wish.least] {
            for &(limit, slots) in &self.0 {
                let amount = amounts.get(limit).copied().unwrap_or(0);
                if amount > 0 {
                    amounts.resize(amounts.len().max(slots + 1), 0);
                    amounts[slots] = amount;
                }
            }
        }
    }

    /// No more units are spent than there are slots for; the others come back with the lease.
    pub fn bound(&self, partial: &mut Partial) {
        for &(limit, slots) in &self.0 {
            let held = std::mem::take(&mut partial.amounts[slots]);
            let units = &mut partial.amounts[limit];
            *units = held.min(*units);
        }
    }

    /// Whether it refuses because as much is out as may be.
    #[must_use]
    pub fn is_full(&self, refusal: &Decision) -> bool {
        let binds = |&(_, slots): &(usize, usize)| refusal.binding == Some(slots);
        self.0.iter().any(binds)
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}
