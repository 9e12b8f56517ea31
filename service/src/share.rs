//! What decides while the store cannot tell: a share of the limits, in this
//! process alone.
//!
//! With `n` processes that each have a share of `1/n`, an outage admits at most
//! what the limits do, once more: budgets begin anew for the share, since nobody
//! can see what was used. It keeps what it was asked from one outage to the next.

use std::sync::Arc;

use super::limiter::Limiter;
use tidegate::internal::{DecisionInternals, LimitInternals, Overrides, SetInternals};
use tidegate::{Admission, BuildError, Decision, Key, Limit, Request};

/// A share of a policy's limits, beside its store.
pub(super) struct Share {
    percent: u8,
    limiter: Limiter,
}

impl Share {
    /// One of `percent`, which `limiter` keeps in this process.
    pub(super) const fn new(percent: u8, limiter: Limiter) -> Self {
        Self { percent, limiter }
    }

    pub(super) const fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Goes over to shares of what the `nth` set of the policy has now.
    pub(super) fn govern(
        &self,
        nth: usize,
        limits: &[Limit],
        given: &Overrides,
    ) -> Result<(), BuildError> {
        let Some(set) = self.limiter.sets().nth(nth) else {
            return Ok(());
        };
        let given = given.iter().map(|(key, own)| {
            let own: Arc<[Limit]> = self.of(own).into();
            (key.clone(), own)
        });
        set.replace_all(&self.of(limits), given.collect())
    }

    /// The same for what one key was given.
    pub(super) fn govern_key(&self, key: &[u8], given: Option<&[Limit]>) {
        let given = given.map(|own| Arc::<[Limit]>::from(self.of(own)));
        for set in self.limiter.sets() {
            // What cannot be said of this key here is said of no key.
            let _ = set.give(key, given.clone());
        }
    }

    /// `limits`, each to this share.
    pub(super) fn of(&self, limits: &[Limit]) -> Vec<Limit> {
        of(self.percent, limits)
    }

    /// Nothing, where it cannot tell either: then the store's error stands.
    pub(super) async fn check(&self, key: Key<'_>, request: Request<'_>) -> Option<Decision> {
        let decision = self.limiter.check(key, request).await.ok()?;
        is_of_share(&decision).then(|| decision.mark_degraded())
    }

    pub(super) async fn debit(
        &self,
        member: Option<&str>,
        key: Key<'_>,
        request: Request<'_>,
    ) -> Option<Decision> {
        let decision = self.limiter.debit(member, key, request).await.ok()?;
        Some(decision.mark_degraded())
    }

    pub(super) async fn acquire(&self, key: Key<'_>, request: Request<'_>) -> Option<Admission> {
        Some(match self.limiter.acquire(key, request).await.ok()? {
            Admission::Refused(decision) if !is_of_share(&decision) => return None,
            Admission::Refused(decision) => Admission::Refused(decision.mark_degraded()),
            granted => granted,
        })
    }
}

/// Whether a share can say so: what is more than a share ever grants may fit the limits
/// themselves, once their store is back.
fn is_of_share(decision: &Decision) -> bool {
    !decision.is_never()
}

/// `limits`, each to a share of so many percent.
pub(super) fn of(percent: u8, limits: &[Limit]) -> Vec<Limit> {
    limits.iter().map(|limit| limit.percent(percent)).collect()
}
