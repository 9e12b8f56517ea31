//! How a lease ends, and what its holder says of it.

use std::time::Duration;

use tidegate_core::Timestamp;

use tidegate::internal::SetInternals;
use tidegate::{Decision, Key, LeaseError, LeaseId, LimitSet, Outcome, Request, Settlement};

/// How a lease is to end.
#[derive(Clone, Copy, Debug)]
pub enum Finish<'a> {
    /// With what was really used.
    Settle(Request<'a>),
    /// With what was used, and nothing of what is not named: of a grant.
    Return(Request<'a>),
    /// What was taken was used.
    Release,
    /// The work did not start: all of it comes back.
    Cancel,
}

/// What its holder says of the work, when a lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// How it went. `Dropped` (the provider has refused) lets the member of a
    /// pool cool down for as long as its policy says, if it says so.
    pub outcome: Outcome,
    /// How long the member of a pool is to be passed over, as the provider has
    /// said; goes before what the policy says.
    pub cool_down: Option<Duration>,
}

/// How a lease has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finished {
    /// What it came to.
    pub settlement: Settlement,
    /// The member of the pool that gave it.
    pub member: Option<String>,
    /// Until when that member is passed over, if it is.
    pub cooling_until: Option<Timestamp>,
}

/// How a lease was renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Renewed {
    /// When it expires now, by the store's clock.
    pub expires_at: Timestamp,
    /// For how long it was renewed.
    pub ttl: Duration,
}

/// Changes how much a lease of `set` has taken.
pub(super) async fn adjust(
    set: &LimitSet,
    key: Key<'_>,
    id: LeaseId,
    to: Request<'_>,
    overdraw: bool,
) -> Result<Decision, LeaseError> {
    match overdraw {
        true => set.overdraw(key, id, to).await,
        false => set.adjust(key, id, to).await,
    }
}

/// Ends a lease of `set`.
pub(super) async fn finish(
    set: &LimitSet,
    key: Key<'_>,
    id: LeaseId,
    how: Finish<'_>,
) -> Result<Settlement, LeaseError> {
    match how {
        Finish::Settle(used) => set.settle(key, id, used).await,
        Finish::Return(used) => set.return_grant(key, id, used).await,
        Finish::Release => set.release(key, id).await,
        Finish::Cancel => set.cancel(key, id).await,
    }
}

/// Renews for `ttl`; without, for as long as a request for a lease gets that does not say.
pub(super) async fn renew(
    set: &LimitSet,
    key: Key<'_>,
    id: LeaseId,
    ttl: Option<Duration>,
) -> Result<Renewed, LeaseError> {
    let ttl = ttl.unwrap_or_else(|| set.lease_length(key));
    let expires_at = set.renew(key, id, ttl).await?;
    Ok(Renewed { expires_at, ttl })
}
