//! A policy's pool: leases found by id, and who cools down.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::finish::{Finish, Finished, Renewed, Report, adjust, finish, renew};
use super::held::Held;
use super::member_forecast::MemberForecast;
use tidegate::internal::{MemberInternals, PoolBuilderInternals, SetInternals};
use tidegate::{
    BuildError, Decision, DecisionError, Key, Lease, LeaseError, LeaseId, LimitPool, LimitSet,
    Member, Metadata, Outcome, Request,
};
use tidegate_policy::Policy;

/// A pool as its policy describes it.
pub(super) struct Pooled {
    pool: LimitPool,
    held: Arc<Held>,
    /// What the policy says of the members, by name.
    terms: BTreeMap<String, Terms>,
}

/// What a policy says of a member, beside its limits.
struct Terms {
    /// How long it cools down when it has dropped work.
    cool_down: Option<Duration>,
    /// What comes with its leases.
    metadata: Arc<Metadata>,
}

impl Pooled {
    /// The pool of `policy`, whose members are `sets` in its order. It goes on
    /// where `before` stands.
    pub(super) fn new(
        policy: &Policy,
        sets: Vec<LimitSet>,
        before: Option<&Self>,
    ) -> Result<Self, BuildError> {
        let mut builder = LimitPool::builder().balance(policy.balance);
        for (member, set) in policy.members.iter().zip(sets) {
            builder = builder.weighted(&member.name, set, member.weight);
        }
        if let Some(before) = before {
            builder = builder.after(&before.pool);
        }
        let terms = policy.members.iter().map(|member| {
            let terms = Terms {
                cool_down: member.cool_down,
                metadata: Arc::new(member.metadata.clone()),
            };
            (member.name.clone(), terms)
        });
        Ok(Self {
            pool: builder.build()?,
            held: before.map_or_else(Arc::default, |before| Arc::clone(&before.held)),
            terms: terms.collect(),
        })
    }

    pub(super) const fn pool(&self) -> &LimitPool {
        &self.pool
    }

    /// A lease goes to its holder elsewhere; answers the words that come with it.
    pub(super) fn hand_out(&self, lease: &Lease) -> Option<&Arc<Metadata>> {
        let member = lease.source()?;
        if !lease.is_repeated() {
            let now = member.set().now();
            self.held.begin(lease.id(), member, lease.expires_at(), now);
        }
        Some(&self.terms.get(member.name())?.metadata)
    }

    /// Brings the members' loads up to date.
    pub(super) fn observe(&self) {
        self.held.expire(self.pool.now());
    }

    pub(super) async fn forecasts(
        &self,
        key: Key<'_>,
        request: Request<'_>,
    ) -> Result<Vec<MemberForecast>, DecisionError> {
        let mut forecasts = Vec::new();
        let mut failed = None;
        for member in self.pool.members() {
            match member.set().forecast(key, request).await {
                Ok(limits) => forecasts.push(MemberForecast {
                    member: Some(member.name().to_owned()),
                    limits,
                }),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if forecasts.is_empty() => Err(error),
            _ => Ok(forecasts),
        }
    }

    pub(super) async fn finish(
        &self,
        key: Key<'_>,
        id: LeaseId,
        how: Finish<'_>,
        report: &Report,
    ) -> Result<Finished, LeaseError> {
        let finish = |member: Member| async move { finish(member.set(), key, id, how).await };
        let (member, settlement) = self.by_owner(id, finish).await?;
        self.held.end(id, report.outcome);
        // A retry must not make a cool-down longer.
        let cool_down = self.cool_down(&member, report);
        let cool_down = cool_down.filter(|_| !settlement.repeated());
        let cooling_until = match cool_down {
            Some(duration) => Some(member.cool_down(duration)),
            None => member.cooling(),
        };
        Ok(Finished {
            settlement,
            member: Some(member.name().to_owned()),
            cooling_until,
        })
    }

    pub(super) async fn renew(
        &self,
        key: Key<'_>,
        id: LeaseId,
        ttl: Option<Duration>,
    ) -> Result<Renewed, LeaseError> {
        let renew = |member: Member| async move { renew(member.set(), key, id, ttl).await };
        let (_, renewed) = self.by_owner(id, renew).await?;
        self.held.renew(id, renewed.expires_at);
        Ok(renewed)
    }

    pub(super) async fn adjust(
        &self,
        key: Key<'_>,
        id: LeaseId,
        to: Request<'_>,
        overdraw: bool,
    ) -> Result<Decision, LeaseError> {
        let adjust =
            |member: Member| async move { adjust(member.set(), key, id, to, overdraw).await };
        let (member, decision) = self.by_owner(id, adjust).await?;
        Ok(member.decided(decision))
    }

    /// What the member that gave a lease answers, and which it is. Of several that may
    /// have given it, those that did not need not know its limits, or may be away.
    async fn by_owner<T, F: Future<Output = Result<T, LeaseError>> + Send>(
        &self,
        id: LeaseId,
        request: impl Fn(Member) -> F + Send,
    ) -> Result<(Member, T), LeaseError> {
        let mut failed = None;
        for member in self.owners(id) {
            match request(member.clone()).await {
                Ok(answer) => return Ok((member, answer)),
                Err(LeaseError::Unknown) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or(LeaseError::Unknown))
    }

    fn cool_down(&self, member: &Member, report: &Report) -> Option<Duration> {
        let usual = || {
            let dropped = report.outcome == Outcome::Dropped;
            let terms = self.terms.get(member.name()).filter(|_| dropped);
            terms.and_then(|terms| terms.cool_down)
        };
        report.cool_down.or_else(usual)
    }

    /// Gives back a lease that nobody holds: nobody waits for the answer.
    pub(super) fn cancel_unseen(&self, key: Key<'_>, id: LeaseId) {
        for member in self.owners(id) {
            member.set().cancel_unseen(key, id);
        }
        self.held.end(id, Outcome::Ignored);
    }

    /// Who may have given the lease, in the order in which they are asked: the member
    /// that is known to have, else all of them.
    fn owners(&self, id: LeaseId) -> Vec<Member> {
        match self.held.member(id) {
            // A pool that was exchanged has the same member under another handle.
            Some(member) => {
                let known = self.pool.member(member.name()).cloned();
                vec![known.unwrap_or(member)]
            }
            None => self.pool.members().to_vec(),
        }
    }
}
