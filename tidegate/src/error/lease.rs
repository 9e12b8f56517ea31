//! Why nothing was done to a lease.

use tidegate_core::Timestamp;
use tidegate_store::{KeyError, StoreError};

use super::build::no_thread;
use super::decision::DecisionError;
use super::kind::{ErrorKind, of_store};
use super::request::RequestError;

/// Why a lease was not settled, released, renewed or adjusted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// What was said makes no sense (an unknown limit, too large an amount, a key that
    /// cannot be one). The lease is held as before.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No lease of that id: never given, or finished and forgotten.
    #[error("{}", StoreError::UnknownLease)]
    Unknown,
    /// It has ended; how, as far as is known.
    #[error("the lease {0}; acquire again")]
    Ended(LeaseEnd),
    /// The queue of requests that wait is full. (Nothing that is done to a lease waits: this
    /// comes from a request for one.)
    #[error("{}", DecisionError::QueueFull(*.0))]
    QueueFull(usize),
    /// So many requests by keys of one root wait as may, as above.
    #[error("{}", DecisionError::RootQueueFull(*.0))]
    RootQueueFull(usize),
    /// Every request that waited was [sent away](crate::LimitSet::stop_waiting), as above.
    #[error("{}", DecisionError::Stopped)]
    Stopped,
    /// No thread could be started that keeps it alive.
    #[error("{}", no_thread(.0))]
    NoWorker(String),
    /// *Cannot tell*: the store.
    #[error(transparent)]
    Store(StoreError),
}

/// How a lease ended that nothing can be done to any more, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseEnd {
    /// This handle has settled it.
    #[error("is settled already")]
    Settled,
    /// This handle has released it.
    #[error("is released already")]
    Released,
    /// This handle has cancelled it.
    #[error("is cancelled already")]
    Cancelled,
    /// It expired at this instant, by the store's clock.
    #[error("expired at {0}")]
    Expired(Timestamp),
    /// The store says that it was over at this instant, and not how or since when: it
    /// expired then, or was ended before by its id or by an administrator.
    #[error("had ended by {0}")]
    By(Timestamp),
}

impl LeaseError {
    /// What it means for its caller.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Request(error) => error.kind(),
            Self::Unknown => ErrorKind::NotFound,
            Self::Ended(_) => ErrorKind::Ended,
            Self::QueueFull(_) | Self::RootQueueFull(_) => ErrorKind::Busy,
            Self::Stopped | Self::NoWorker(_) => ErrorKind::Unavailable,
            Self::Store(error) => of_store(error),
        }
    }
}

impl From<KeyError> for LeaseError {
    fn from(error: KeyError) -> Self {
        Self::Request(error.into())
    }
}

impl From<StoreError> for LeaseError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownLease => Self::Unknown,
            StoreError::LeaseEnded(at) => Self::Ended(LeaseEnd::By(at)),
            error => Self::Store(error),
        }
    }
}

/// A command that was made for a lease is decided like any other.
impl From<DecisionError> for LeaseError {
    fn from(error: DecisionError) -> Self {
        match error {
            DecisionError::Request(error) => Self::Request(error),
            DecisionError::Store(error) => error.into(),
            DecisionError::QueueFull(most) => Self::QueueFull(most),
            DecisionError::RootQueueFull(most) => Self::RootQueueFull(most),
            DecisionError::Stopped => Self::Stopped,
        }
    }
}
