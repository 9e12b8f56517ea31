//! What an exchange of policies changes.

use std::fmt;

use crate::policy::{Policy, PolicyFile};

/// One thing that an exchange of policies changes, in words for people.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// A policy that was not there.
    PolicyAdded(String),
    /// A policy that is no longer there: its state is forgotten.
    PolicyRemoved(String),
    /// A policy whose keys have other levels: its state begins anew.
    LevelsChanged(String),
    /// A limit that was not there.
    LimitAdded {
        /// The policy.
        policy: String,
        /// The limit.
        limit: String,
    },
    /// A limit that is no longer there.
    LimitRemoved {
        /// The policy.
        policy: String,
        /// The limit.
        limit: String,
    },
    /// A limit with other numbers: what was used stays used.
    LimitChanged {
        /// The policy.
        policy: String,
        /// The limit.
        limit: String,
    },
    /// Another setting of a policy.
    SettingChanged(String),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PolicyAdded(name) => write!(f, "+ policy {name}"),
            Self::PolicyRemoved(name) => write!(f, "- policy {name} (its state is forgotten)"),
            Self::LevelsChanged(name) => {
                write!(f, "~ policy {name}: other levels (its state begins anew)")
            }
            Self::LimitAdded { policy, limit } => write!(f, "+ limit {policy}.{limit}"),
            Self::LimitRemoved { policy, limit } => write!(f, "- limit {policy}.{limit}"),
            Self::LimitChanged { policy, limit } => write!(f, "~ limit {policy}.{limit}"),
            Self::SettingChanged(name) => write!(
                f,
                "~ policy {name}: settings (max_keys and max_waiting from the next start on)"
            ),
        }
    }
}

/// What leads from `old` to `new`.
pub(super) fn between<'p>(
    old: impl Iterator<Item = &'p Policy> + Clone,
    new: &PolicyFile,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for policy in old.clone().filter(|policy| new.get(&policy.name).is_none()) {
        changes.push(Change::PolicyRemoved(policy.name.clone()));
    }
    for policy in &new.policies {
        match old.clone().find(|known| known.name == policy.name) {
            None => changes.push(Change::PolicyAdded(policy.name.clone())),
            Some(known) => of_one(known, policy, &mut changes),
        }
    }
    changes
}

fn of_one(old: &Policy, new: &Policy, changes: &mut Vec<Change>) {
    let policy = || new.name.clone();
    if old.levels != new.levels {
        changes.push(Change::LevelsChanged(policy()));
        return;
    }
    if (old.failure_mode, old.max_keys, old.max_waiting)
        != (new.failure_mode, new.max_keys, new.max_waiting)
    {
        changes.push(Change::SettingChanged(policy()));
    }
    let limit = |name: &str| name.to_owned();
    for known in &old.limits {
        if !new.limits.iter().any(|l| l.name() == known.name()) {
            changes.push(Change::LimitRemoved {
                policy: policy(),
                limit: limit(known.name()),
            });
        }
    }
    for wanted in &new.limits {
        match old.limits.iter().find(|l| l.name() == wanted.name()) {
            None => changes.push(Change::LimitAdded {
                policy: policy(),
                limit: limit(wanted.name()),
            }),
            Some(known) if known != wanted => changes.push(Change::LimitChanged {
                policy: policy(),
                limit: limit(wanted.name()),
            }),
            Some(_) => {}
        }
    }
}
