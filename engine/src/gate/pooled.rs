//! A policy's pool: leases found by id, and who cools down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::StoreError;
use tidegate_core::Timestamp;

use super::backing::{self, Outlook};
use super::finish::{Finish, Finished, Report};
use super::held::Held;
use crate::ask::Ask;
use crate::error::Error;
use crate::key::Key;
use crate::lease::{Lease, LeaseId, Outcome};
use crate::policy::Policy;
use crate::pool::{LimitPool, Member};
use crate::set::{LimitSet, Metadata};

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
    ) -> Result<Self, Error> {
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
            let now = member.inner().clock.now();
            self.held.begin(lease.id(), member, lease.expires_at(), now);
        }
        Some(&self.terms.get(member.name())?.metadata)
    }

    /// Brings the members' loads up to date.
    pub(super) fn observe(&self) {
        self.held.expire(self.pool.clock().now());
    }

    pub(super) fn forecasts(&self, key: Key<'_>, ask: Ask<'_>) -> Result<Vec<Outlook>, Error> {
        let mut outlooks = Vec::new();
        let mut failed = None;
        for member in self.pool.members() {
            match member.set().forecast(key, ask) {
                Ok(limits) => outlooks.push(Outlook {
                    member: Some(member.name().to_owned()),
                    limits,
                }),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if outlooks.is_empty() => Err(error),
            _ => Ok(outlooks),
        }
    }

    pub(super) fn finish(
        &self,
        key: Key<'_>,
        id: LeaseId,
        how: Finish<'_>,
        report: &Report,
    ) -> Result<Finished, Error> {
        let (member, settlement) =
            self.with_owner(id, |member| backing::finish(member.set(), key, id, how))?;
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

    pub(super) fn renew(
        &self,
        key: Key<'_>,
        id: LeaseId,
        ttl: Duration,
    ) -> Result<Timestamp, Error> {
        let (_, until) = self.with_owner(id, |member| member.set().renew(key, id, ttl))?;
        self.held.renew(id, until);
        Ok(until)
    }

    fn cool_down(&self, member: &Member, report: &Report) -> Option<Duration> {
        let usual = || {
            let dropped = report.outcome == Outcome::Dropped;
            let terms = self.terms.get(member.name()).filter(|_| dropped);
            terms.and_then(|terms| terms.cool_down)
        };
        report.cool_down.or_else(usual)
    }

    /// Does it with the member that gave the lease: the one that is known to
    /// have, else the first that knows it.
    fn with_owner<T>(
        &self,
        id: LeaseId,
        act: impl Fn(&Member) -> Result<T, Error>,
    ) -> Result<(Member, T), Error> {
        if let Some(member) = self.held.member(id) {
            // A pool that was exchanged has the same member under another handle.
            let member = self.pool.member(member.name()).cloned().unwrap_or(member);
            let done = act(&member)?;
            return Ok((member, done));
        }
        for member in self.pool.members() {
            match act(member) {
                Err(Error::Store(StoreError::UnknownLease)) => {}
                done => return Ok((member.clone(), done?)),
            }
        }
        Err(StoreError::UnknownLease.into())
    }
}
