//! Limits, a set or a pool that cannot be made or changed so.

use std::time::Duration;

use tidegate_store::{KeyError, StoreError};
use tidegate_tier::TierError;

use super::kind::{ErrorKind, of_store};
use crate::limit::LimitError;

/// That no thread could be started, and what to do.
pub(super) fn no_thread(why: &str) -> String {
    format!(
        "no thread could be started: {why}; raise how many threads the process may have (`ulimit \
         -u`, `TasksMax=`)"
    )
}

/// Why limits, a set, a pool or a leased lock cannot be made or changed so. Nothing was
/// changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A limit that makes no sense.
    #[error("limit `{limit}`: {source}")]
    Limit {
        /// Its name.
        limit: String,
        /// What is wrong with it.
        source: LimitError,
    },
    /// Two limits of one set have the same name.
    #[error("limit `{0}` is defined twice; names are unique in a set")]
    DuplicateLimit(String),
    /// A change of a limit that the set does not have.
    #[error("there is no limit `{name}` here; there is {known}")]
    UnknownLimit {
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A set, a pool or a crew of workers without anything in it.
    #[error("there is no {0}; add at least one")]
    Nothing(&'static str),
    /// More levels than a key may have.
    #[error("{0} levels are too many; at most 8 are possible")]
    TooManyLevels(usize),
    /// A lease that would last too short or too long.
    #[error("a lease lasts from 1 ms to 400 days, not {0:?}")]
    LeaseLength(Duration),
    /// Usage that would be kept for too short or too long.
    #[error("usage is kept for an hour to 3660 days, not for {0:?}")]
    UsageLength(Duration),
    /// A capacity was set for a limit whose capacity is its own.
    #[error(
        "limit `{0}` is not adaptive: declare it with `.adaptive()`, or replace it with put_limit"
    )]
    NotAdaptive(String),
    /// An override for a key that cannot be one.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An override for a key of another level than the limit is about.
    #[error(
        "limit `{limit}` is about level `{about}` of a key, and this key ends at level `{level}`; set the override for a key that ends at `{about}`"
    )]
    OtherLevel {
        /// The limit's name.
        limit: String,
        /// The level that it is about.
        about: String,
        /// The last level of the key.
        level: String,
    },
    /// Overrides are bounded.
    #[error("{0} overrides are set already; remove some, or give those keys a policy of their own")]
    TooManyOverrides(usize),
    /// Limits that only some keys have are bounded.
    #[error(
        "keys were added {0} limits of different names already; take one of these, or add it for every key"
    )]
    TooManyAdded(usize),
    /// The overrides of a policy's set are set at its service.
    #[error(
        "this limit set belongs to a server: set its overrides there, with `tidegate override set`"
    )]
    Governed,
    /// Two members of one pool have the same name.
    #[error("member `{0}` is added twice; names are unique in a pool")]
    DuplicateMember(String),
    /// A member that would never be chosen.
    #[error("member `{0}` has weight 0; leave it out, or give it at least 1")]
    ZeroWeight(String),
    /// The thread that keeps the permits of a leased lock alive could not be started.
    #[error("{}", no_thread(.0))]
    NoWorker(String),
    /// A tier that makes no sense for these limits.
    #[error(transparent)]
    Tier(#[from] TierError),
    /// *Cannot tell*: the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BuildError {
    /// What it means for its caller.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NoWorker(_) => ErrorKind::Unavailable,
            Self::Store(error) => of_store(error),
            _ => ErrorKind::Invalid,
        }
    }
}
