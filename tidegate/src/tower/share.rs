//! Whose a request is, and how much it takes.

use std::time::Duration;

use tidegate_core::Amount;

use crate::request::Request;

/// Whose a request is, and how much it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    pub(super) key: Vec<u8>,
    cost: Amount,
    wait: Duration,
    ttl: Option<Duration>,
}

impl Share {
    /// A request of `key`: one of each limit of calls and concurrency, and a cost of 1 of
    /// each rate and budget. It does not wait.
    #[must_use]
    pub fn of(key: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            cost: 1,
            wait: Duration::ZERO,
            ttl: None,
        }
    }

    /// How much it takes of each rate and budget.
    #[must_use]
    pub fn cost(mut self, cost: Amount) -> Self {
        self.cost = cost;
        self
    }

    /// How long it may wait for its turn.
    #[must_use]
    pub fn wait(mut self, longest: Duration) -> Self {
        self.wait = longest;
        self
    }

    /// What is asked of the limits.
    pub(super) fn request(&self) -> Request<'static> {
        let request = Request::from(self.cost).within(self.wait);
        request.ttl_or(self.ttl)
    }

    /// How long the service may work on it at most (1 ms to 400 days; what the limits say
    /// if not said): after that its slot is another's, though it goes on.
    #[must_use]
    pub fn ttl(mut self, longest_work: Duration) -> Self {
        self.ttl = Some(longest_work);
        self
    }
}
