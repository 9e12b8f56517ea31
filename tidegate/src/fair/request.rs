//! What a request says to a fair queue.

use std::time::Duration;

use tidegate_core::{Amount, MAX_AMOUNT};

use super::bounds::{MAX_WEIGHT, PRIORITIES};
use crate::error::FairError;
use crate::key::Key;
use crate::request::DEFAULT_WAIT;

/// A request as a fair queue sees it: whose it is, what it costs, and how long it may wait.
///
/// ```
/// use std::time::Duration;
/// use tidegate::fair::FairRequest;
///
/// let queued = FairRequest::of("acme").cost(4_000).within(Duration::from_secs(20));
/// let paying = FairRequest::of("globex").cost(4_000).weight(3).priority(1);
/// # let _ = (queued, paying);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FairRequest<'a> {
    pub(super) flow: Key<'a>,
    pub(super) cost: Amount,
    pub(super) weight: u32,
    pub(super) priority: u8,
    pub(super) within: Duration,
}

impl<'a> FairRequest<'a> {
    /// A request of `flow` (a tenant, a user: 1 to 4,096 bytes): of cost 1, weight 1 and
    /// priority 0, which waits for [`DEFAULT_WAIT`].
    #[must_use]
    pub fn of(flow: impl Into<Key<'a>>) -> Self {
        Self {
            flow: flow.into(),
            cost: 1,
            weight: 1,
            priority: 0,
            within: DEFAULT_WAIT,
        }
    }

    /// What it is thought to cost, in whatever is shared out (tokens): 1 to 2^53 - 1. The
    /// true cost is said [later](super::FairCharge::settle).
    #[must_use]
    pub fn cost(mut self, cost: Amount) -> Self {
        self.cost = cost;
        self
    }

    /// How large a share its flow has beside others: 1 to [`MAX_WEIGHT`]. It counts for this
    /// request; a flow says the same of all of its own.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// How urgent it is: 0 to 7. A flow has a share of its own at each priority.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// How long it waits at most, in the queue and at the limits together; for ever with
    /// [`Duration::MAX`].
    #[must_use]
    pub fn within(mut self, longest_wait: Duration) -> Self {
        self.within = longest_wait;
        self
    }

    /// # Errors
    /// [`FairError`]: what is out of its bounds.
    pub(super) fn check(&self) -> Result<(), FairError> {
        self.flow.check().map_err(crate::RequestError::from)?;
        match self {
            Self { cost, .. } if !(1..=MAX_AMOUNT).contains(cost) => Err(FairError::Cost(*cost)),
            Self { priority, .. } if usize::from(*priority) >= PRIORITIES => {
                Err(FairError::Priority(*priority))
            }
            Self { weight, .. } if !(1..=MAX_WEIGHT).contains(weight) => {
                Err(FairError::Weight(*weight))
            }
            _ => Ok(()),
        }
    }
}
