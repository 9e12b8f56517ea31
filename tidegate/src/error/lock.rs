//! Why there is no permit of a leased lock.

use std::time::Duration;

use tidegate_core::Amount;
use tidegate_store::StoreError;

use super::build::no_thread;
use super::decision::DecisionError;
use super::kind::{ErrorKind, of_store};
use super::lease::{LeaseEnd, LeaseError};
use super::request::RequestError;
use crate::limit::Unit;

/// Why there is no permit of a leased lock.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// More slots than it has. (A set or pool answers a request for more
    /// than it ever grants by a [decision](crate::Decision::is_never).)
    #[error(
        "never: {limit} grants at most {} at once, not {}",
        unit.show(*capacity),
        unit.show(*requested)
    )]
    NeverFits {
        /// The limit's name.
        limit: String,
        /// What was requested of it.
        requested: Amount,
        /// The most it grants.
        capacity: Amount,
        /// What both count.
        unit: Unit,
    },
    /// No slot was free in the time that it was waited for.
    #[error(
        "no slot was free within {0:?}; wait longer with acquire_within (of a mutex, lock_within), or add slots"
    )]
    WaitedTooLong(Duration),
    /// The queue of those who wait in this process is full.
    #[error("{}", DecisionError::QueueFull(*.0))]
    QueueFull(usize),
    /// Everyone who waited was [sent away](crate::LimitSet::stop_waiting).
    #[error("{}", DecisionError::Stopped)]
    Stopped,
    /// No thread could be started that keeps the permit alive.
    #[error("{}", no_thread(.0))]
    NoWorker(String),
    /// The permit's lease has ended; how, as far as is known.
    #[error("{}", LeaseError::Ended(*.0))]
    Ended(LeaseEnd),
    /// A key that cannot be one, or no slots at all.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// *Cannot tell*: the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LockError {
    /// What it means for its caller.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NeverFits { .. } => ErrorKind::Never,
            Self::WaitedTooLong(_) | Self::QueueFull(_) => ErrorKind::Busy,
            Self::Stopped | Self::NoWorker(_) => ErrorKind::Unavailable,
            Self::Ended(_) => ErrorKind::Ended,
            Self::Request(error) => error.kind(),
            Self::Store(error) => of_store(error),
        }
    }
}

impl From<DecisionError> for LockError {
    fn from(error: DecisionError) -> Self {
        match error {
            DecisionError::Request(error) => Self::Request(error),
            // A lock's set has one key: its queue is that of all.
            DecisionError::QueueFull(most) | DecisionError::RootQueueFull(most) => {
                Self::QueueFull(most)
            }
            DecisionError::Stopped => Self::Stopped,
            DecisionError::Store(error) => Self::Store(error),
        }
    }
}

/// A permit is a lease.
impl From<LeaseError> for LockError {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Request(error) => Self::Request(error),
            LeaseError::Unknown => Self::Store(StoreError::UnknownLease),
            LeaseError::Ended(end) => Self::Ended(end),
            LeaseError::QueueFull(most) | LeaseError::RootQueueFull(most) => Self::QueueFull(most),
            LeaseError::Stopped => Self::Stopped,
            LeaseError::NoWorker(why) => Self::NoWorker(why),
            LeaseError::Store(error) => Self::Store(error),
        }
    }
}
