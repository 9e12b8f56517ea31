//! What is asked of a policy's limits.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::key::Key;
use crate::named::Named;
use crate::quantity::{Quantity, millis};

/// What is asked of a policy's limits: of which policy, for whom, and how much.
///
/// Calls and concurrency that are not named are taken at 1, and 0 leaves a limit out. A rate or
/// budget that is not named is not charged once any limit is named: [`cost`](Self::cost) charges
/// every one of those.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Request {
    policy: String,
    #[serde(flatten)]
    key: Key,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Quantity>,
    #[serde(skip_serializing_if = "Named::is_empty")]
    amounts: Named<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<String>,
    #[serde(
        rename = "wait_ms",
        serialize_with = "as_millis",
        skip_serializing_if = "is_no_time"
    )]
    pub(crate) within: Option<Duration>,
    #[serde(skip_serializing_if = "is_false")]
    wait_for_refunds: bool,
    #[serde(
        rename = "ttl_ms",
        serialize_with = "as_millis",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) ttl: Option<Duration>,
    #[serde(skip_serializing_if = "is_zero")]
    priority: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Named::is_empty")]
    least: Named<Quantity>,
    #[serde(
        rename = "hold_ms",
        serialize_with = "as_millis",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) hold: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<String>,
}

impl Request {
    /// A request for `key`, of a policy.
    #[must_use]
    pub fn new(policy: impl Into<String>, key: impl Into<Key>) -> Self {
        Self {
            policy: policy.into(),
            key: key.into(),
            cost: None,
            amounts: Named::default(),
            member: None,
            within: None,
            wait_for_refunds: false,
            ttl: None,
            priority: 0,
            idempotency_key: None,
            least: Named::default(),
            hold: None,
            lease: None,
        }
    }

    /// So much of the limit of this name.
    #[must_use]
    pub fn amount(mut self, limit: impl Into<String>, amount: impl Into<Quantity>) -> Self {
        self.amounts.insert(limit, amount.into());
        self
    }

    /// So much of every rate and budget that no [`amount`](Self::amount) names.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Quantity>) -> Self {
        self.cost = Some(cost.into());
        self
    }

    /// Of a pool, for a peek, a forecast and a debit: this member alone.
    #[must_use]
    pub fn member(mut self, member: impl Into<String>) -> Self {
        self.member = Some(member.into());
        self
    }

    /// For a lease: waits in line at the server, at most this long. What the rates cannot admit
    /// in that time is refused at once, and more than the server's `longest_wait` (5 minutes
    /// unless set) is an error.
    #[must_use]
    pub const fn within(mut self, longest: Duration) -> Self {
        self.within = Some(longest);
        self
    }

    /// For a lease: waits also where the rates cannot admit it in time, for what others give
    /// back.
    #[must_use]
    pub const fn wait_for_refunds(mut self) -> Self {
        self.wait_for_refunds = true;
        self
    }

    /// For a lease: how long it lasts unless it is renewed, 1 ms to 400 days; the policy says
    /// so otherwise.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// For a lease: how urgent, 0 to 255; each step counts as having come a second earlier.
    #[must_use]
    pub const fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// For a lease: the same text (1 to 255 bytes) for the same key again gives the same lease
    /// for as long as that is held, also from another process. Without it each
    /// [`acquire`](crate::Client::acquire) makes one of its own.
    #[must_use]
    pub fn idempotency_key(mut self, text: impl Into<String>) -> Self {
        self.idempotency_key = Some(text.into());
        self
    }

    /// For a grant: less than so much of the limit of this name makes no sense; of a limit that is
    /// not named here, one unit.
    #[must_use]
    pub fn least(mut self, limit: impl Into<String>, amount: impl Into<Quantity>) -> Self {
        self.least.insert(limit, amount.into());
        self
    }

    /// For a grant: for how long it is held at most, 10 ms to 60 s; the policy's tier says so
    /// otherwise, or it is a second.
    #[must_use]
    pub const fn hold(mut self, hold: Duration) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Of which policy.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// For whom.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }
}

pub(crate) fn as_millis<S: Serializer>(
    length: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    length.map(millis).serialize(serializer)
}

fn is_no_time(within: &Option<Duration>) -> bool {
    within.is_none_or(|within| within.is_zero())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}
