//! What is decided by a rate that comes with the call.

use tidegate::{Key, Standing, Timestamp, Verdict};

use super::access::Caller;
use super::active_policy::{ActivePolicy, Charge};
use super::error::ServiceError;
use super::rate::{LIMIT, Rate};
use super::service::Service;

/// What a rate that came with the call has decided.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Rated {
    /// The answer alone.
    pub verdict: Verdict,
    /// Where the rate stands.
    pub standing: Standing,
    /// As of when.
    pub at: Timestamp,
}

impl Service {
    /// Takes `quantity` of `key`'s `rate`, if it fits. For nothing, and for more than there
    /// ever is, it is looked at alone.
    ///
    /// # Errors
    /// As [`ad_hoc`](Self::ad_hoc) and [`ActivePolicy::check`]; a store that cannot tell.
    pub async fn decide_by_rate(
        &self,
        caller: &Caller,
        key: Key<'_>,
        rate: Rate,
        quantity: u64,
    ) -> Result<Rated, ServiceError> {
        let active = self.ad_hoc(caller, rate).await?;
        if quantity == 0 || quantity > rate.capacity {
            return Box::pin(look(&active, key, rate, quantity)).await;
        }
        let decision = match active.check(key, quantity).await? {
            Charge::Decided(decision) => decision,
            Charge::Degraded(store) => return Err(store.into()),
        };
        let standing = decision.standing(LIMIT);
        Ok(Rated::of(&active, rate, decision.verdict(), standing))
    }
}

/// Nothing is asked for, or more than there ever is: where does it stand?
async fn look(
    active: &ActivePolicy,
    key: Key<'_>,
    rate: Rate,
    quantity: u64,
) -> Result<Rated, ServiceError> {
    let standing = active.peek(key, 1).await?.standing(LIMIT);
    let verdict = match quantity {
        0 => Verdict::Admit,
        _ => Verdict::Never,
    };
    Ok(Rated::of(active, rate, verdict, standing))
}

impl Rated {
    fn of(active: &ActivePolicy, rate: Rate, verdict: Verdict, standing: Option<Standing>) -> Self {
        Self {
            verdict,
            standing: standing.unwrap_or(Standing::full(rate.capacity)),
            at: active.now(),
        }
    }
}
