//! Policies that a reload took away, whose names may come back.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate::LimitSet;
use tidegate_policy::Policy;

use super::active_policy::ActivePolicy;

/// Policies that are gone, each for as long as this node holds something of its keys: leases that
/// it gave are known here alone.
#[derive(Default)]
pub(super) struct Retired(HashMap<String, Arc<ActivePolicy>>);

impl Retired {
    /// Keeps `gone` for as long as it holds something.
    pub(super) fn keep(&mut self, gone: &Arc<ActivePolicy>) {
        if holds_something(gone) {
            let name = gone.policy().name.clone();
            self.0.insert(name, Arc::clone(gone));
        }
    }

    /// What `policy`, which comes back, goes on with, if it is as it was. Else it begins anew, by all
    /// that it says now.
    pub(super) fn back(&self, policy: &Policy) -> Option<&ActivePolicy> {
        let known = self.0.get(&policy.name)?;
        (known.policy() == policy && holds_something(known)).then_some(known)
    }

    /// Forgets those of which nothing is held any more.
    pub(super) fn forget_idle(&mut self) {
        self.0.retain(|_, gone| holds_something(gone));
    }

    /// Forgets those that are back.
    pub(super) fn forget_back(&mut self, is_back: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| !is_back(name));
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ActivePolicy>> {
        self.0.values()
    }
}

fn holds_something(gone: &ActivePolicy) -> bool {
    let mut tiers = gone.sets().filter_map(LimitSet::tier_statistics);
    tiers.any(|tier| tier.keys > 0 || tier.returning > 0)
}
