//! Why a namespace is not there, or does not change.

use super::state::{MOST, NamespaceState};

/// What speaks against it. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// None has this name.
    #[error(
        "there is no namespace `{0}`; create it with `tidegate namespaces create`, or correct the name"
    )]
    Unknown(String),
    /// One has this name already.
    #[error("there is a namespace `{name}` already, which is {}", state.name())]
    Exists {
        /// Its name.
        name: String,
        /// How it is.
        state: NamespaceState,
    },
    /// It was deleted.
    #[error("the namespace `{0}` is deleted; restore it, and all of it is there again")]
    Deleted(String),
    /// What was in it is being removed.
    #[error(
        "the namespace `{0}` is being purged; purge it again until it is gone: then it can be \
         created anew"
    )]
    Purging(String),
    /// One that is in use is not purged.
    #[error("the namespace `{0}` is in use; delete it before it is purged")]
    NotDeleted(String),
    /// Servers that have not heard of the deletion may still write.
    #[error(
        "the namespace `{name}` was deleted a moment ago, and a server that has not heard of it \
         may still write; purge it in {} s", left_ms.div_ceil(1_000)
    )]
    TooSoon {
        /// Its name.
        name: String,
        /// In how many milliseconds it can be purged.
        left_ms: u64,
    },
    /// There are so many and no more.
    #[error("there are {MOST} namespaces, and no more are kept; purge one that is deleted")]
    TooMany,
    /// There is no store to keep them.
    #[error("namespaces need a store, and this service has none")]
    Unkept,
    /// A newer server says something of it that this one does not know.
    #[error("what is kept of the namespace `{0}` cannot be read here; upgrade this server")]
    Unreadable(String),
}
