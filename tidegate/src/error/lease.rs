//! Why nothing was done to a lease.

use tidegate_core::Timestamp;
use tidegate_store::{KeyError, StoreError};

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
    #[error("no such lease: never given, or ended so long ago that it was forgotten")]
    Unknown,
    /// It has ended, or has expired.
    #[error("the lease ended at {0}; acquire again")]
    Ended(Timestamp),
    /// No thread could be started that keeps it alive.
    #[error("no thread could be started: {0}")]
    NoWorker(String),
    /// *Cannot tell*: the store.
    #[error(transparent)]
    Store(StoreError),
}

impl LeaseError {
    /// What it means for its caller.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Request(error) => error.kind(),
            Self::Unknown => ErrorKind::NotFound,
            Self::Ended(_) => ErrorKind::Ended,
            Self::NoWorker(_) => ErrorKind::Unavailable,
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
            StoreError::LeaseEnded(at) => Self::Ended(at),
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
            // Nobody waits for his turn to end a lease.
            error @ (DecisionError::QueueFull(_) | DecisionError::Stopped) => {
                Self::Store(StoreError::Busy(error.to_string()))
            }
        }
    }
}
