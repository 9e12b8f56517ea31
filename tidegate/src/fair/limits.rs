//! What a fair queue stands before: a set or a pool.

use std::future::Future;
use std::time::Duration;

use super::queue::{Dispatch, FairCharge, FairQueue};
use super::request::FairRequest;
use crate::admission::Admission;
use crate::decision::Decision;
use crate::error::{DecisionError, FairError};
use crate::key::Key;
use crate::lease::Lease;
use crate::pending::Pending;
use crate::pool::LimitPool;
use crate::request::Request;
use crate::set::LimitSet;

/// What a fair queue may stand before: a [`LimitSet`] or a [`LimitPool`].
pub trait Limits: asked::Asked {}

impl Limits for LimitSet {}
impl Limits for LimitPool {}

mod asked {
    use super::{Admission, Decision, DecisionError, Future, Key, LimitPool, LimitSet, Request};

    type Answer<T> = Result<T, DecisionError>;

    /// What is asked of limits. Nobody else implements it.
    pub trait Asked: Sync {
        fn take(
            &self,
            key: Key<'_>,
            request: Request<'_>,
        ) -> impl Future<Output = Answer<Admission>> + Send;

        fn look(
            &self,
            key: Key<'_>,
            request: Request<'_>,
        ) -> impl Future<Output = Answer<Decision>> + Send;

        /// Whether limits below the key's root refuse it: those that not all requests share.
        fn refuses_below_root(
            &self,
            key: Key<'_>,
            request: Request<'_>,
        ) -> impl Future<Output = Answer<bool>> + Send;

        /// Whether it has such limits.
        fn has_limits_below_root(&self) -> bool;
    }

    impl Asked for LimitSet {
        async fn take(&self, key: Key<'_>, request: Request<'_>) -> Answer<Admission> {
            self.acquire(key, request).await
        }

        async fn look(&self, key: Key<'_>, request: Request<'_>) -> Answer<Decision> {
            self.peek(key, request).await
        }

        async fn refuses_below_root(&self, key: Key<'_>, request: Request<'_>) -> Answer<bool> {
            let below = self.inner().peek_below_root(key.bytes(), &request).await?;
            Ok(!below.admitted())
        }

        fn has_limits_below_root(&self) -> bool {
            let view = self.inner().view.load();
            view.plan.limits().iter().any(|limit| limit.level > 0)
        }
    }

    impl Asked for LimitPool {
        async fn take(&self, key: Key<'_>, request: Request<'_>) -> Answer<Admission> {
            self.acquire(key, request).await
        }

        async fn look(&self, key: Key<'_>, request: Request<'_>) -> Answer<Decision> {
            self.peek(key, request).await
        }

        /// Those of every member that can tell.
        async fn refuses_below_root(&self, key: Key<'_>, request: Request<'_>) -> Answer<bool> {
            for member in self.members() {
                if let Ok(false) = member.set().refuses_below_root(key, request).await {
                    return Ok(false);
                }
            }
            Ok(true)
        }

        fn has_limits_below_root(&self) -> bool {
            self.members()
                .iter()
                .any(|member| member.set().has_limits_below_root())
        }
    }
}

impl FairQueue {
    /// Takes what `request` says as a lease, when it is its turn: exactly the requests
    /// that the limits admit start, in this queue's order. It waits as long as the entry says,
    /// whatever the request does. Given up before its end, it gives back its place, and what it
    /// took.
    ///
    /// A request for more than there ever is is refused at once. One that limits below the
    /// key's root refuse (a tenant's own) waits for those beside the queue, and the rest of its
    /// flow behind it.
    ///
    /// # Errors
    /// [`FairError`]; nothing was changed.
    pub fn acquire<'k, 'a>(
        &self,
        limits: &impl Limits,
        queued: FairRequest<'a>,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission<(Lease, FairCharge)>, FairError>> + Send>
    {
        let (key, request) = (key.into(), request.into());
        Pending::new(async move {
            let joined = self.join(&queued)?;
            if !joined.is_called() {
                let looked = limits.look(key, request).await?;
                if looked.is_never() {
                    return Ok(Admission::Refused(looked));
                }
            }
            let turn = joined.await?;
            let (turn, admission) = at_limits(limits, turn, key, request).await?;
            Ok(admission.map(|lease| (lease, turn.started())))
        })
    }
}

/// What the limits answer to one whose turn it is.
async fn at_limits(
    limits: &impl Limits,
    mut turn: Dispatch,
    key: Key<'_>,
    request: Request<'_>,
) -> Result<(Dispatch, Admission), DecisionError> {
    if !limits.has_limits_below_root() {
        let admission = limits.take(key, request.within(turn.left())).await?;
        return Ok((turn, admission));
    }
    let admission = limits.take(key, request.within(Duration::ZERO)).await?;
    if admission.refusal().is_none_or(Decision::is_never) {
        return Ok((turn, admission));
    }
    if limits.refuses_below_root(key, request).await? {
        turn.step_aside();
    }
    let admission = limits.take(key, request.within(turn.left()));
    // What cannot be told by a look the answer tells.
    let look = async || matches!(limits.refuses_below_root(key, request).await, Ok(true));
    let admission = turn.wait_for(admission, look).await?;
    Ok((turn, admission))
}
