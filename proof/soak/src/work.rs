//! What is done with a lease, and how long it lasts.

use std::time::Duration;

/// Amounts by limit.
pub type Amounts = &'static [(&'static str, u64)];

/// How long leases are remembered after their end.
pub const REMEMBERED: Duration = Duration::from_secs(3);
/// How long a lease lasts that is left behind.
pub const SHORT: Duration = Duration::from_secs(1);
/// How long one lasts that is renewed.
pub const LONG: Duration = Duration::from_secs(60);

/// What is done with each lease of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Held for a while, and settled.
    Settle,
    /// Adjusted to more, to less, and to more than there may be; settled.
    Adjust,
    /// Asked for twice by one idempotency key, settled, asked for anew.
    Repeat,
    /// Held for long, and renewed meanwhile; settled.
    Renew,
    /// Left behind until it expires; some are settled after that.
    Abandon,
    /// Settled by its id, twice.
    ById,
    /// In turn: cancelled, released, dropped, failed.
    EndEachWay,
    /// None is asked for: a check, which a tier decides by what it has.
    Check,
    /// Asked for by the id of an entity, and settled by that.
    ByEntity,
}
