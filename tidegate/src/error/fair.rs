//! Why a request has no turn in a fair queue.

use std::time::Duration;

use tidegate_core::{Amount, MAX_AMOUNT};

use super::decision::DecisionError;
use super::kind::ErrorKind;
use super::request::RequestError;
use crate::fair::MAX_WEIGHT;

/// Why a request has no turn in a fair queue, or no decision after its turn. It is told to that
/// request alone; nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FairError {
    /// A cost that is none.
    #[error("a request in a fair queue costs 1 to {MAX_AMOUNT}, not {0}")]
    Cost(Amount),
    /// A weight that is none, of a flow or a priority.
    #[error("a weight is 1 to {MAX_WEIGHT}, not {0}")]
    Weight(u32),
    /// A priority that is none.
    #[error("priorities of a fair queue are 0 to 7, not {0}")]
    Priority(u8),
    /// As many requests wait as may.
    #[error(
        "{0} requests wait in this fair queue already; send fewer, or raise `waiting` of its bounds"
    )]
    QueueFull(usize),
    /// As many requests of this flow wait as may.
    #[error(
        "{0} requests of this flow wait already; send fewer, or raise `waiting_of_flow` of the bounds"
    )]
    FlowFull(usize),
    /// There are as many flows as there may be.
    #[error("{0} flows wait or run already; send fewer, or raise `flows` of the bounds")]
    FlowsFull(usize),
    /// Its turn did not come in the time that it was waited for.
    #[error(
        "its turn did not come within {:.3} s; wait longer, send fewer, or give its flow more weight",
        .0.as_secs_f64()
    )]
    WaitedTooLong(Duration),
    /// Everyone who waited was [sent away](crate::fair::FairQueue::stop_waiting).
    #[error("{}", DecisionError::Stopped)]
    Stopped,
    /// What the limits say of it.
    #[error(transparent)]
    Decision(#[from] DecisionError),
}

impl FairError {
    /// What it means for its caller.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Cost(_) | Self::Weight(_) | Self::Priority(_) => ErrorKind::Invalid,
            Self::QueueFull(_)
            | Self::FlowFull(_)
            | Self::FlowsFull(_)
            | Self::WaitedTooLong(_) => ErrorKind::Busy,
            Self::Stopped => ErrorKind::Unavailable,
            Self::Decision(error) => error.kind(),
        }
    }
}

impl From<RequestError> for FairError {
    fn from(error: RequestError) -> Self {
        Self::Decision(error.into())
    }
}
