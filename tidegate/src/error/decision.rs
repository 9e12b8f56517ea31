//! Why there is no decision.

use tidegate_store::{KeyError, StoreError};

use super::kind::{ErrorKind, of_store};
use super::request::RequestError;

/// Why a request has no decision. (A refusal is one.) Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// The request makes no sense.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The queue of those who wait is full.
    #[error(
        "{0} requests wait already; send fewer, or raise `max_waiting` of the policy (in Rust `.max_waiting()`, in Python `max_waiting=`)"
    )]
    QueueFull(usize),
    /// So many requests by keys of one root wait as may.
    #[error(
        "{0} requests by keys of this root (the key's first segment) wait already; send fewer, or raise `max_waiting_per_root` of the policy (in Rust `.max_waiting_per_root()`; half of `max_waiting`, 8 at least, unless set)"
    )]
    RootQueueFull(usize),
    /// Everyone who waited was [sent away](crate::LimitSet::stop_waiting).
    #[error("the wait was stopped: the limits are being closed or replaced; request again")]
    Stopped,
    /// *Cannot tell*: the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DecisionError {
    /// What it means for its caller.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Request(error) => error.kind(),
            Self::QueueFull(_) | Self::RootQueueFull(_) => ErrorKind::Busy,
            Self::Stopped => ErrorKind::Unavailable,
            Self::Store(error) => of_store(error),
        }
    }
}

impl From<KeyError> for DecisionError {
    fn from(error: KeyError) -> Self {
        Self::Request(error.into())
    }
}
