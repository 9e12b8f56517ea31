//! Why an entity is not there, or does not change.

/// What speaks against it. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntityError {
    /// None has this id.
    #[error("there is no entity `{0}`; create it, or correct the id")]
    Unknown(String),
    /// A change that names nothing.
    #[error(
        "say what of the entity is to change: its `parent`, `name`, `metadata` or `charge_parents`"
    )]
    NoChange,
    /// One has this id already.
    #[error("there is an entity `{id}` already, at version {version}; change it instead")]
    Exists {
        /// Its id.
        id: String,
        /// Its version.
        version: u64,
    },
    /// It would be below itself.
    #[error("`{id}` cannot belong to `{parent}`: that is `{id}` itself, or belongs to it")]
    Cycle {
        /// The entity.
        id: String,
        /// Its parent to be.
        parent: String,
    },
    /// There are so many levels and no more.
    #[error(
        "`{id}` cannot belong to `{parent}`: an entity has 7 ancestors at most, which makes 8 \
         levels, and one would be at level {level}"
    )]
    TooDeep {
        /// The entity.
        id: String,
        /// Its parent to be.
        parent: String,
        /// The level that was counted to.
        level: usize,
    },
    /// What an entity has used is kept with its root.
    #[error(
        "`{id}` cannot belong to `{parent}`, which has another root than `{root}`: an entity moves \
         only within its root, where its use is kept; delete `{id}` and create it there"
    )]
    OtherRoot {
        /// The entity.
        id: String,
        /// Its parent to be.
        parent: String,
        /// The root that it has.
        root: String,
    },
    /// What an entity has used is kept for its level.
    #[error(
        "`{id}` cannot belong to `{parent}`: it is at level {old} and would be at level {new}, \
         where other limits hold; create it anew there"
    )]
    OtherLevel {
        /// The entity.
        id: String,
        /// Its parent to be.
        parent: String,
        /// The level that it has.
        old: usize,
        /// The level that it would have.
        new: usize,
    },
    /// It is deeper than the keys of a policy.
    #[error(
        "`{id}` is at level {level}, and the keys of the policy `{policy}` have {levels}: it has \
         no limits there; add levels to the policy's `key`, or ask for an ancestor of it"
    )]
    Unlimited {
        /// The entity.
        id: String,
        /// Its level.
        level: usize,
        /// The policy.
        policy: String,
        /// How many levels its keys have.
        levels: usize,
    },
    /// It is above the keys of a policy.
    #[error(
        "`{id}` is at level {level}, and the keys of the policy `{policy}` have {levels}, down to \
         `{last}`: ask for an entity below it, or set `partial_keys = true` in the policy"
    )]
    Above {
        /// The entity.
        id: String,
        /// Its level.
        level: usize,
        /// The policy.
        policy: String,
        /// How many levels its keys have.
        levels: usize,
        /// What the policy calls the last of them.
        last: String,
    },
    /// Others belong to it.
    #[error("`{id}` has children, such as `{child}`; delete or move them first")]
    HasChildren {
        /// The entity.
        id: String,
        /// One of its children.
        child: String,
    },
    /// Somebody holds leases of it.
    #[error(
        "`{id}`, or an entity below it, holds leases of the policy `{policy}`; wait for their \
         end, or revoke them"
    )]
    HasLeases {
        /// The entity.
        id: String,
        /// A policy of which it holds some.
        policy: String,
    },
    /// An ancestor was deleted, or the store has lost it.
    #[error(
        "`{id}` belongs to `{parent}`, which is not there; create `{parent}`, or delete `{id}` \
         and create it anew"
    )]
    Orphan {
        /// The entity.
        id: String,
        /// The parent that is not there.
        parent: String,
    },
    /// Its ancestors do not end: the store was changed by something else.
    #[error("`{0}` has more than 7 ancestors, or is one of its own; delete it and create it anew")]
    Endless(String),
}
