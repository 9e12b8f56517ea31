//! What is asked of the server.

use serde::Serialize;

use crate::exchange::Exchange;
use crate::lease_ref::LeaseRef;

/// The longest answer to one verb that is read, in bytes.
const LONGEST_ANSWER: usize = 1 << 20;

/// What is asked of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Takes what is requested, if it fits now, without a lease.
    Check,
    /// Takes a lease.
    Acquire,
    /// Takes units to be spent without asking.
    Grant,
    /// Ends a grant with what was used of it.
    Return,
    /// Ends a lease with what was really used.
    Settle,
    /// Ends a lease: what was taken was used.
    Release,
    /// Gives all of a lease back.
    Cancel,
    /// Moves a lease's expiry.
    Renew,
    /// Changes how much a lease has taken.
    Adjust,
    /// Charges what was used already.
    Debit,
    /// What a check would be answered.
    Peek,
    /// How many such requests fit, and when.
    Forecast,
    /// Forgets what a key has used.
    Reset,
}

impl Verb {
    /// Where HTTP has it.
    const fn path(self) -> &'static str {
        match self {
            Self::Check => "/v1/check",
            Self::Acquire => "/v1/acquire",
            Self::Grant => "/v1/grant",
            Self::Return => "/v1/return",
            Self::Settle => "/v1/settle",
            Self::Release => "/v1/release",
            Self::Cancel => "/v1/cancel",
            Self::Renew => "/v1/renew",
            Self::Adjust => "/v1/adjust",
            Self::Debit => "/v1/debit",
            Self::Peek => "/v1/peek",
            Self::Forecast => "/v1/forecast",
            Self::Reset => "/v1/reset",
        }
    }

    /// Whether asking twice comes to the same as asking once. Of an `acquire` it does with an
    /// idempotency key alone. What does not stand here as repeatable is asked once.
    const fn is_repeatable(self) -> bool {
        match self {
            Self::Return
            | Self::Settle
            | Self::Release
            | Self::Cancel
            | Self::Renew
            | Self::Adjust
            | Self::Peek
            | Self::Forecast
            | Self::Reset => true,
            Self::Check | Self::Acquire | Self::Grant | Self::Debit => false,
        }
    }

    /// The request that says it, of a [`Request`](crate::Request).
    #[must_use]
    pub fn of(self, request: &impl Serialize) -> Exchange {
        let post = Exchange::post(self.path(), request).answered_in(LONGEST_ANSWER);
        post.repeatable(self.is_repeatable())
    }

    /// The request that says it of a lease, with a [`Report`](crate::Report), say.
    #[must_use]
    pub fn of_lease(self, lease: &LeaseRef, what: &impl Serialize) -> Exchange {
        self.of(&About { lease, what })
    }
}

/// Of a lease: which, and what about it.
#[derive(Serialize)]
struct About<'a, T> {
    #[serde(flatten)]
    lease: &'a LeaseRef,
    #[serde(flatten)]
    what: &'a T,
}
