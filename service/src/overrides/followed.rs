//! What is told at any server of the store, in force here.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_store::StoreError;

use super::stored::Stored;
use super::target::OverrideTarget;
use crate::active_policy::ActivePolicy;
use tidegate::BuildError;

/// Of more keys that change at once a policy's limits are made anew in one step.
const ONE_BY_ONE: usize = 16;

/// Goes over to what is stored now at these places.
pub(crate) fn go_over(
    active: &[Arc<ActivePolicy>],
    stored: &Stored,
    touched: &BTreeSet<OverrideTarget>,
) {
    for active in active {
        let name = &active.policy().name;
        let targets: Vec<_> = touched
            .iter()
            .filter(|target| target.concerns(name))
            .collect();
        let keys = targets.iter().filter_map(|target| target.key.as_deref());
        let is_few = targets.len() <= ONE_BY_ONE && keys.clone().count() == targets.len();
        let done = match is_few {
            _ if targets.is_empty() => Ok(()),
            // One that fails keeps nothing from the others.
            true => {
                let each = keys.map(|key| active.govern_key(stored, key));
                each.fold(Ok(()), Result::and)
            }
            false => active.govern(stored),
        };
        if let Err(error) = done {
            tell_of_policy(name, &error);
        }
    }
}

/// Logs what cannot be read, with what to do.
pub(crate) fn tell_of(target: &OverrideTarget, error: &StoreError) {
    tracing::error!(
        target: "tidegate::overrides",
        target = %target,
        error = %error,
        "an override that another server has stored cannot be read; what was in force stays in \
         force here. Upgrade this server, or set the override again",
    );
}

/// Logs that a store still keeps what has ended, with what that means.
pub(crate) fn tell_of_end(target: &OverrideTarget, error: &StoreError) {
    tracing::warn!(
        target: "tidegate::overrides",
        target = %target,
        error = %error,
        "the end of an override could not be written to the store: the override holds no more, and \
         is removed at the next start",
    );
}

/// Logs that a store has none of what it had, with what to do.
pub(crate) fn tell_of_loss() {
    tracing::warn!(
        target: "tidegate::overrides",
        "the store no longer has the overrides that were set: the policies' own limits hold \
         again; if the store was emptied, set them anew",
    );
}

fn tell_of_policy(name: &str, error: &BuildError) {
    tracing::error!(
        target: "tidegate::overrides",
        policy = name,
        error = %error,
        "overrides could not be put in force in this policy: its limits stay as they were; change \
         the override or the policy",
    );
}
