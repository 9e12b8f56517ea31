//! Why a store cannot answer. A refusal is no error and is not here.

use tidegate_core::{DecodeError, Timestamp};

/// What is said of a cursor that no page gave.
pub const INVALID_CURSOR: &str = "invalid cursor; start again without one";

/// *Cannot tell*. Nothing was changed, unless it is [`Unavailable`](Self::Unavailable): then the
/// command may have been executed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Every key that may be kept is in use.
    #[error(
        "all {max_keys} keys that may be kept are in use; raise `max_keys` of the policy (in Rust \
         `.max_keys()`) and restart"
    )]
    KeysFull {
        /// The bound.
        max_keys: usize,
    },
    /// Every key that may be kept under one root is in use.
    #[error(
        "all {max_keys_per_root} keys of this root (the key's first segment) that may be kept are \
         in use; raise `max_keys_per_root` of the policy (in Rust `.max_keys_per_root()`) and \
         restart"
    )]
    RootKeysFull {
        /// The bound.
        max_keys_per_root: usize,
    },
    /// Every lease that may be held at once is.
    #[error(
        "{max_leases} leases are held; settle sooner, or raise `max_leases` of the policy \
         (in Rust `.max_leases()`)"
    )]
    LeasesFull {
        /// The bound.
        max_leases: usize,
    },
    /// The keys of one root hold every lease that they may.
    #[error(
        "{max_leases_per_root} leases are held by keys of this root (the key's first segment); \
         settle sooner, or raise `max_leases_per_root` of the policy (in Rust \
         `.max_leases_per_root()`)"
    )]
    RootLeasesFull {
        /// The bound.
        max_leases_per_root: usize,
    },
    /// Every record of usage that may be kept is.
    #[error(
        "all {max_usage} usage records that may be kept are in use (four for each of the policy's \
         `max_keys`); shorten `usage`, or raise `max_keys` (in Rust `.max_keys()`)"
    )]
    UsageFull {
        /// The bound.
        max_usage: usize,
    },
    /// There is no room for more keys or leases, and all that are kept matter: what would
    /// make room is said.
    #[error("the store is full: {0}")]
    Full(String),
    /// A table that processes do not share is used by one limit set at a time: two would not
    /// see each other's changes, nor wake each other's waiters.
    #[error(
        "the name `{0}` is in use in this process; clone the set or the lock that has it, or give this one another name"
    )]
    InUse(String),
    /// What a table holds is kept by levels; under others it would not be found.
    #[error(
        "what is kept as `{name}` has keys of {kept} levels, not {wanted}; give this set another name"
    )]
    OtherLevels {
        /// The table.
        name: String,
        /// The levels of its keys.
        kept: usize,
        /// The levels of the plan it was opened with.
        wanted: usize,
    },
    /// No lease of that id: never given, or finished and forgotten.
    #[error(
        "there is no such lease under this policy and key: it ended and was forgotten, or was \
         never granted; look at the policy and key, or acquire again"
    )]
    UnknownLease,
    /// The lease was over at this instant: it expired then, or had ended before.
    #[error("the lease had ended by {0}; acquire again")]
    LeaseEnded(Timestamp),
    /// The command was made for an older plan; make it again for the newer one.
    #[error("the limits have changed since the command was made; send it again")]
    StalePlan,
    /// A lease of that id exists.
    #[error("a lease of this id exists already; draw another id")]
    DuplicateLease,
    /// The store has no listing.
    #[error("this store cannot list what it holds; choose another store")]
    CannotList,
    /// The store keeps no usage.
    #[error(
        "this store does not count usage; leave `usage` out of the policy, or choose another \
         store"
    )]
    CannotCount,
    /// The store removes nothing by the beginning of its name.
    #[error("this store cannot be cleared in part; choose another store for namespaces")]
    CannotClear,
    /// The store does not keep definitions, or not all that can be done with them: what it lacks.
    #[error("this store {0}; choose another store for that")]
    CannotDefine(String),
    /// The table is not there any more: it was cleared since it was opened, or what the store
    /// keeps was made anew. Nothing was done. What is opened again under its name is another.
    #[error("{0}; open the store again: restart the server")]
    TableGone(String),
    /// A listing cannot go on from there.
    #[error(
        "{INVALID_CURSOR} (a cursor is good for the listing that gave it, and some end with a restart)"
    )]
    UnknownPage,
    /// What is stored cannot be read.
    #[error(transparent)]
    Unreadable(#[from] DecodeError),
    /// A table answered another question: it is broken.
    #[error(
        "internal error: the store's answer is of another kind than the command; please report it"
    )]
    Mismatch,
    /// Others keep what the command needs for too long: the lock of its root, or the
    /// connections that its key or its set may have. The store answers; nothing was
    /// done, and asking again makes sense.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// The store cannot be reached, or failed.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
}

impl StoreError {
    /// What a store said that has failed: it cannot be reached, or not within its
    /// deadline, or broke down. Nothing for every other error: those are answers to
    /// what was asked, and say nothing about the store. A breaker
    /// goes by this alone.
    #[must_use]
    pub fn outage(&self) -> Option<&str> {
        match self {
            Self::Unavailable(words) => Some(words),
            _ => None,
        }
    }
}
