//! Why a request was not answered.

use std::time::Duration;

use crate::decision::Decision;
use crate::error::DecisionError;

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError<E> {
    /// The limits have refused it.
    #[error("{decision}")]
    Refused {
        /// Which limit, and until when.
        decision: Decision,
        /// How long to wait before it is worth while to ask again; `None`: the limits
        /// never admit as much, or only a release tells.
        retry_after: Option<Duration>,
    },
    /// What was asked makes no sense, or the store cannot tell.
    #[error(transparent)]
    Limits(DecisionError),
    /// The service's own.
    #[error(transparent)]
    Service(E),
}

impl<E> LayerError<E> {
    pub(super) fn refused(decision: Decision) -> Self {
        Self::Refused {
            retry_after: decision.retry_after(),
            decision,
        }
    }
}
