//! All that can go wrong, in one.

use std::time::Duration;

use tidegate_core::Amount;
use tidegate_store::{KeyError, StoreError};

use super::build::{BuildError, no_thread};
use super::decision::DecisionError;
use super::fair::FairError;
use super::kind::{ErrorKind, of_store};
use super::lease::{LeaseEnd, LeaseError};
use super::lock::LockError;
use super::member::UnknownMember;
use super::request::RequestError;
use crate::limit::Unit;

/// What any of the library's operations can fail with, for a function that does several:
/// `?` makes it of the error of each. What happened has one place here, whichever of them
/// said it: that of the store is always [`Store`](Self::Store).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Limits, a set or a pool cannot be made or changed so.
    #[error(transparent)]
    Build(BuildError),
    /// A request makes no sense.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The pool has no member of that name.
    #[error(transparent)]
    UnknownMember(#[from] UnknownMember),
    /// No lease of that id: never given, or finished and forgotten.
    #[error("{}", LeaseError::Unknown)]
    UnknownLease,
    /// The lease has ended; how, as far as is known.
    #[error("{}", LeaseError::Ended(*.0))]
    LeaseEnded(LeaseEnd),
    /// The queue of those who wait is full.
    #[error("{}", DecisionError::QueueFull(*.0))]
    QueueFull(usize),
    /// So many requests by keys of one root wait as may.
    #[error("{}", DecisionError::RootQueueFull(*.0))]
    RootQueueFull(usize),
    /// More slots of a leased lock than it has.
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
    /// No slot of a leased lock was free in the time that it was waited for.
    #[error("{}", LockError::WaitedTooLong(*.0))]
    WaitedTooLong(Duration),
    /// No turn in a fair queue.
    #[error(transparent)]
    Fair(FairError),
    /// Everyone who waited was [sent away](crate::LimitSet::stop_waiting).
    #[error("{}", DecisionError::Stopped)]
    Stopped,
    /// A thread or a worker could not be started.
    #[error("{}", no_thread(.0))]
    NoWorker(String),
    /// The runtime of [workers](crate::workers) ended before their work.
    #[error("the runtime that the workers need has ended; keep it until `run` has answered")]
    RuntimeEnded,
    /// *Cannot tell*: the store.
    #[error(transparent)]
    Store(StoreError),
}

impl Error {
    /// What it means for its caller.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Build(error) => error.kind(),
            Self::Request(error) => error.kind(),
            Self::UnknownMember(error) => error.kind(),
            Self::UnknownLease => ErrorKind::NotFound,
            Self::LeaseEnded(_) => ErrorKind::Ended,
            Self::NeverFits { .. } => ErrorKind::Never,
            Self::QueueFull(_) | Self::RootQueueFull(_) | Self::WaitedTooLong(_) => ErrorKind::Busy,
            Self::Fair(error) => error.kind(),
            Self::Stopped | Self::NoWorker(_) | Self::RuntimeEnded => ErrorKind::Unavailable,
            Self::Store(error) => of_store(error),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownLease => Self::UnknownLease,
            StoreError::LeaseEnded(at) => Self::LeaseEnded(LeaseEnd::By(at)),
            error => Self::Store(error),
        }
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Self::Request(error.into())
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::NoWorker(why) => Self::NoWorker(why),
            BuildError::Key(error) => error.into(),
            BuildError::LeaseLength(length) => RequestError::LeaseLength(length).into(),
            BuildError::Store(error) => error.into(),
            error => Self::Build(error),
        }
    }
}

impl From<DecisionError> for Error {
    fn from(error: DecisionError) -> Self {
        match error {
            DecisionError::Request(error) => Self::Request(error),
            DecisionError::QueueFull(most) => Self::QueueFull(most),
            DecisionError::RootQueueFull(most) => Self::RootQueueFull(most),
            DecisionError::Stopped => Self::Stopped,
            DecisionError::Store(error) => error.into(),
        }
    }
}

impl From<LeaseError> for Error {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Request(error) => Self::Request(error),
            LeaseError::Unknown => Self::UnknownLease,
            LeaseError::Ended(end) => Self::LeaseEnded(end),
            LeaseError::QueueFull(most) => Self::QueueFull(most),
            LeaseError::RootQueueFull(most) => Self::RootQueueFull(most),
            LeaseError::Stopped => Self::Stopped,
            LeaseError::NoWorker(why) => Self::NoWorker(why),
            LeaseError::Store(error) => error.into(),
        }
    }
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::NeverFits {
                limit,
                requested,
                capacity,
                unit,
            } => Self::NeverFits {
                limit,
                requested,
                capacity,
                unit,
            },
            LockError::WaitedTooLong(longest) => Self::WaitedTooLong(longest),
            LockError::QueueFull(most) => Self::QueueFull(most),
            LockError::Stopped => Self::Stopped,
            LockError::NoWorker(why) => Self::NoWorker(why),
            LockError::Ended(end) => Self::LeaseEnded(end),
            LockError::Request(error) => Self::Request(error),
            LockError::Store(error) => error.into(),
        }
    }
}

impl From<FairError> for Error {
    fn from(error: FairError) -> Self {
        match error {
            FairError::Decision(error) => error.into(),
            FairError::Stopped => Self::Stopped,
            error => Self::Fair(error),
        }
    }
}
