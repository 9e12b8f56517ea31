//! What a protocol asks, as it was sent: numbers as they were said, and nothing looked up.
//! [`Service::call`] holds it to its bounds, finds the policy, and answers.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::access::Caller;
use super::active_policy::ActivePolicy;
use super::amounts::Number;
use super::answer::{Answer, Decided};
use super::audit::{Action, EventDraft};
use super::bounds;
use super::error::ServiceError;
use super::field::Field;
use super::finish::{Finish, Report};
use super::listing::LeaseHandle;
use super::many::check_many;
use super::overrides::{GivenLimit, OverrideTarget, OverrideTerms};
use super::rate::Rate;
use super::service::Service;
use super::spans;
use super::undelivered::Undelivered;
use tidegate::internal::RequestInternals;
use tidegate::{Key, LeaseId, PageOf, Request, Select, Timestamp};
use tidegate_policy::Scope;

/// Amounts by limit, as they were said; a few, as a rule.
pub type Amounts<'a> = SmallVec<[(&'a str, Number<'a>); 4]>;

/// The same, in the limits' units.
type InUnits<'a> = SmallVec<[(&'a str, u64); 8]>;

/// What a protocol asks of the service.
#[derive(Clone, Debug)]
pub enum Call<'a> {
    /// Take it, if it fits.
    Check(Question<'a>),
    /// Each of these by itself, all at one instant: 1 to 1,000. What is wrong with one in the
    /// protocol's own words is its answer.
    CheckMany(Vec<Result<Question<'a>, ServiceError>>),
    /// It was used already.
    Debit(Question<'a>),
    /// What would a check be answered?
    Peek(Question<'a>),
    /// How much fits, and when?
    Forecast(Question<'a>),
    /// Take a lease.
    Acquire(Question<'a>, Terms<'a>),
    /// A lease has ended, and so much was used.
    Settle(OfLease<'a>, Report, Uses<'a>),
    /// A lease has ended: what was taken was used.
    Release(OfLease<'a>, Report),
    /// The work of a lease did not start.
    Cancel(OfLease<'a>, Report),
    /// A lease is to last so many milliseconds from now.
    Renew(OfLease<'a>, Option<u64>),
    /// A lease is to have taken so much in all, with `true` into debt.
    Adjust(OfLease<'a>, Uses<'a>, bool),
    /// Forget a key of a policy.
    Reset(&'a str, Key<'a>),
    /// End the lease of a key of a policy that has this handle.
    Revoke(&'a str, Key<'a>, LeaseHandle),
    /// The keys of a policy.
    Keys(&'a str, Listing<'a>),
    /// The leases that are held of a policy.
    Leases(&'a str, Listing<'a>),
    /// The keys that are refused most often, of a policy or of all that the caller may
    /// observe: 1 to 256; 100 if not said.
    Denied(Option<&'a str>, Option<u64>),
    /// Every refusal from now on, by a policy or by all that the caller may observe.
    WatchDenials(Option<&'a str>),
    /// Limits in place of what the policies say.
    SetOverride(OverrideOf<'a>, Cow<'a, [GivenLimit]>, OverrideTerms<'a>),
    /// What was set there holds no more.
    RemoveOverride(OverrideOf<'a>, OverrideTerms<'a>),
    /// What is set.
    Overrides(OverrideListing<'a>),
    /// What was changed by whom.
    Audit(AuditListing<'a>),
    /// All policies that the caller may observe.
    Policies,
    /// One of them.
    Policy(&'a str),
    /// Take so much of a key's rate, which comes with the call.
    Throttle(Key<'a>, Rate, u64),
}

/// Whose limits of which policy, and how much of them.
#[derive(Clone, Debug, Default)]
pub struct Question<'a> {
    /// The policy's name.
    pub policy: &'a str,
    /// Whose limits.
    pub key: &'a [u8],
    /// Of a pool, the member that is meant; where the pool chooses, none.
    pub member: Option<&'a str>,
    /// How much of each rate and budget that is not named.
    pub cost: Option<Number<'a>>,
    /// How much of the limits that are.
    pub amounts: Amounts<'a>,
}

/// How much a lease has used, or is to have taken.
#[derive(Clone, Debug, Default)]
pub struct Uses<'a> {
    /// How much of each rate and budget that is not named.
    pub cost: Option<Number<'a>>,
    /// How much of the limits that are.
    pub amounts: Amounts<'a>,
}

/// On which terms a lease is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms<'a> {
    /// How long to wait, in milliseconds; not at all for 0.
    pub wait_ms: u64,
    /// Whether to wait also for what other leases give back.
    pub wait_for_refunds: bool,
    /// How long the lease lasts, in milliseconds; as its policy says, if not said.
    pub ttl_ms: Option<u64>,
    /// How many seconds earlier the request counts as having come: 0 to 255.
    pub priority: u64,
    /// What makes a repeated request the same one: 1 to 255 bytes.
    pub idempotency: Option<&'a [u8]>,
    /// Whether a grant tells where the limits stand, too.
    pub standings: bool,
    /// Members of a pool that are not asked; not all of them.
    pub passed_over: &'a [&'a str],
}

/// Which lease.
#[derive(Clone, Copy, Debug)]
pub struct OfLease<'a> {
    /// The policy's name.
    pub policy: &'a str,
    /// Whose it is.
    pub key: &'a [u8],
    /// Its id.
    pub lease: LeaseId,
}

/// What an override is for, as it was said. What is left out means every one.
#[derive(Clone, Copy, Debug, Default)]
pub struct OverrideOf<'a> {
    /// The policy's name.
    pub policy: Option<&'a str>,
    /// The key, or an ancestor of keys.
    pub key: Option<&'a [u8]>,
}

/// Which page of the overrides.
#[derive(Clone, Debug, Default)]
pub struct OverrideListing<'a> {
    /// Those of this policy and this key alone, as far as they are said.
    pub of: OverrideOf<'a>,
    /// The one of exactly that place.
    pub exact: bool,
    /// Where it goes on: the end of the page before.
    pub after: Option<Cow<'a, [u8]>>,
    /// How many: 1 to 1,000; 100 if not said.
    pub most: Option<u64>,
}

/// Which page of the audit events.
#[derive(Clone, Debug, Default)]
pub struct AuditListing<'a> {
    /// Those of this policy and of this key alone, as far as they are said.
    pub of: OverrideOf<'a>,
    /// Those from this instant on.
    pub since: Option<Timestamp>,
    /// Those before this instant.
    pub until: Option<Timestamp>,
    /// Where it goes on: the end of the page before.
    pub after: Option<Cow<'a, [u8]>>,
    /// How many: 1 to 1,000; 100 if not said.
    pub most: Option<u64>,
}

/// Which page of a list.
#[derive(Clone, Debug)]
pub struct Listing<'a> {
    /// What is listed.
    pub select: Select<'a>,
    /// Where it goes on: the end of the page before.
    pub after: Option<Cow<'a, [u8]>>,
    /// How many items: 1 to 1,000; 100 if not said.
    pub most: Option<u64>,
}

impl Service {
    /// Answers `call`, for `caller`.
    ///
    /// # Errors
    /// [`ServiceError`]: what is out of its bounds, before what there is not; as the verbs of
    /// [`ActivePolicy`].
    #[inline]
    pub async fn call(&self, caller: &Caller, call: Call<'_>) -> Result<Answer, ServiceError> {
        match call {
            Call::Check(question) => {
                let (active, question) = self.resolved(caller, Scope::Decide, &question)?;
                question.belongs_to_no_member()?;
                let in_units = active.in_units(&question.amounts)?;
                let request = question.request(&active, &in_units)?;
                let charge = active.check(question.key, request).await?;
                Ok(Answer::Decided(Decided::charged(active, charge)))
            }
            Call::Throttle(key, rate, quantity) => {
                let rated = Box::pin(self.decide_by_rate(caller, key, rate, quantity));
                Ok(Answer::Rated(rated.await?))
            }
            // What is asked less often takes no room of a check's.
            call => Box::pin(self.call_other(caller, call)).await,
        }
    }

    async fn call_other(&self, caller: &Caller, call: Call<'_>) -> Result<Answer, ServiceError> {
        match call {
            Call::Check(_) | Call::Throttle(..) => unreachable!("answered where it comes in"),
            Call::CheckMany(questions) => self.check_each(caller, questions).await,
            Call::Debit(question) => {
                let (active, question) = self.resolved(caller, Scope::Decide, &question)?;
                let in_units = active.in_units(&question.amounts)?;
                let request = question.request(&active, &in_units)?;
                let charge = active
                    .debit_at(question.member, question.key, request)
                    .await?;
                Ok(Answer::Charged(Decided::charged(active, charge)))
            }
            Call::Peek(question) => {
                let question = question.or_nothing();
                let (active, question) = self.resolved(caller, Scope::Observe, &question)?;
                let in_units = active.in_units(&question.amounts)?;
                let request = question.request(&active, &in_units)?;
                let decision = active
                    .peek_at(question.member, question.key, request)
                    .await?;
                let member = question.member.or(decision.member());
                let overridden = self.overridden(&active, member, question.key.into());
                let decided = Decided::of(active, decision);
                Ok(Answer::Foretold(decided, overridden))
            }
            Call::Forecast(question) => {
                let (active, question) = self.resolved(caller, Scope::Observe, &question)?;
                let in_units = active.in_units(&question.amounts)?;
                let request = question.request(&active, &in_units)?;
                let forecast = active.forecast(question.member, question.key, request);
                let forecasts = forecast.await?;
                // Of a pool as a whole, one may be all that could serve the request.
                let is_one = question.member.is_some() || !active.policy().is_pool();
                Ok(Answer::Forecast(active, forecasts, is_one))
            }
            Call::Acquire(question, terms) => self.acquire(caller, &question, terms).await,
            Call::Settle(of, report, used) => {
                let active = self.of_lease(caller, &of)?;
                let in_units = active.in_units(&used.amounts)?;
                let used = active.request(used.cost, None, &in_units)?;
                finish(active, &of, Finish::Settle(used), &report).await
            }
            Call::Release(of, report) => {
                let active = self.of_lease(caller, &of)?;
                finish(active, &of, Finish::Release, &report).await
            }
            Call::Cancel(of, report) => {
                let active = self.of_lease(caller, &of)?;
                finish(active, &of, Finish::Cancel, &report).await
            }
            Call::Renew(of, ttl_ms) => {
                let active = self.of_lease(caller, &of)?;
                let ttl = ttl_ms.map(Duration::from_millis);
                let renewed = active.renew(of.key.into(), of.lease, ttl).await?;
                Ok(Answer::Renewed(renewed))
            }
            Call::Adjust(of, to, overdraw) => {
                to.name_something()?;
                let active = self.of_lease(caller, &of)?;
                let in_units = active.in_units(&to.amounts)?;
                let to = active.request(to.cost, None, &in_units)?;
                let decision = active.adjust(of.key.into(), of.lease, to, overdraw).await?;
                Ok(Answer::Decided(Decided::of(active, decision)))
            }
            Call::Reset(policy, key) => {
                let active = self.policy_for(caller, Scope::Administer, policy, key)?;
                let draft = EventDraft::of(Action::Reset);
                let reset = active.reset(caller, key);
                let reset = self.audited_key(caller, (policy, key), &draft, reset).await;
                spans::entered(reset)??;
                Ok(Answer::Forgotten)
            }
            Call::Revoke(policy, key, handle) => {
                let active = self.policy_for(caller, Scope::Administer, policy, key)?;
                let lease = spans::entered(active.find_lease(key, handle).await)?;
                let draft = EventDraft {
                    details: &[handle.to_string()],
                    ..EventDraft::of(Action::Revoke)
                };
                let revoked = active.revoke(caller, key, lease);
                let revoked = self
                    .audited_key(caller, (policy, key), &draft, revoked)
                    .await;
                let finished = spans::entered(revoked)??;
                Ok(Answer::Finished(active, finished))
            }
            Call::Keys(policy, listing) => {
                let (active, page) = self.listed(caller, policy, &listing)?;
                let page = active.list_keys(page).await?;
                Ok(Answer::Keys(active, page))
            }
            Call::Leases(policy, listing) => {
                let (active, page) = self.listed(caller, policy, &listing)?;
                let page = active.list_leases(page).await?;
                Ok(Answer::Leases(active, page))
            }
            Call::Denied(policy, most) => Ok(Answer::Denied(self.denied(caller, policy, most)?)),
            Call::WatchDenials(policy) => Ok(Answer::Denials(self.denial_watch(caller, policy)?)),
            Call::SetOverride(of, limits, terms) => {
                let target = spans::entered(of.target())?;
                let stored_override = self.write_override(caller, &target, &limits, &terms);
                Ok(Answer::OverrideSet(spans::entered(stored_override.await)?))
            }
            Call::RemoveOverride(of, terms) => {
                let target = spans::entered(of.target())?;
                let removed = self.remove_override_on(caller, &target, &terms).await;
                Ok(Answer::Removed(target, spans::entered(removed)?))
            }
            Call::Audit(listing) => {
                let most = spans::entered(bounds::page(listing.most))?;
                let of = spans::entered(listing.of.target())?;
                let page = (listing.after.as_deref(), most);
                let within = [listing.since, listing.until];
                let page = self.audit(caller, &of, within, page).await;
                Ok(Answer::Audit(spans::entered(page)?))
            }
            Call::Overrides(listing) => spans::entered(self.list(caller, &listing)),
            Call::Policies => Ok(Answer::Policies(self.policies(caller))),
            Call::Policy(name) => {
                let active = self.policy(caller, Scope::Observe, name)?;
                Ok(Answer::Policy(active))
            }
        }
    }

    async fn check_each(
        &self,
        caller: &Caller,
        questions: Vec<Result<Question<'_>, ServiceError>>,
    ) -> Result<Answer, ServiceError> {
        spans::entered(bounds::checks(questions.len()))?;
        let resolved = questions.iter().map(|question| {
            let question = question.as_ref().map_err(Clone::clone)?;
            let (active, question) = self.resolved(caller, Scope::Decide, question)?;
            question.belongs_to_no_member()?;
            let in_units = active.in_units(&question.amounts)?;
            Ok((active, question, in_units))
        });
        let resolved: Vec<Result<_, ServiceError>> = resolved.collect();
        let checks = resolved.iter().map(|resolved| {
            let (active, question, in_units) = resolved.as_ref().map_err(Clone::clone)?;
            let request = question.request(active, in_units)?;
            Ok((Arc::clone(active), Key::from(question.key), request))
        });
        let answers = check_many::<ServiceError>(checks.collect()).await;
        let answers = answers.into_iter();
        let decided =
            answers.map(|one| one.map(|(active, charge)| Decided::charged(active, charge)));
        Ok(Answer::Many(decided.collect()))
    }

    async fn acquire(
        &self,
        caller: &Caller,
        question: &Question<'_>,
        terms: Terms<'_>,
    ) -> Result<Answer, ServiceError> {
        let priority = spans::entered(bounds::priority(terms.priority))?;
        let (active, question) = self.resolved(caller, Scope::Decide, question)?;
        question.belongs_to_no_member()?;
        let in_units = active.in_units(&question.amounts)?;
        let mut request = question.request(&active, &in_units)?;
        request = request.priority(priority).passing_over(terms.passed_over);
        request = request.within(Duration::from_millis(terms.wait_ms));
        if terms.wait_for_refunds {
            request = request.wait_for_refunds();
        }
        if terms.standings {
            request = request.standings();
        }
        if let Some(ttl) = terms.ttl_ms {
            request = request.ttl(Duration::from_millis(ttl));
        }
        if let Some(key) = terms.idempotency {
            request = request.idempotency(key);
        }
        let key = Key::from(question.key);
        let acquired = active.acquire(key, request).await?;
        let lease = Undelivered::of(&active, key, &acquired, terms.idempotency.is_some());
        Ok(Answer::Acquired(active, acquired, lease.map(Arc::new)))
    }

    fn list(&self, caller: &Caller, listing: &OverrideListing<'_>) -> Result<Answer, ServiceError> {
        let most = bounds::page(listing.most)?;
        let target = listing.of.target()?;
        if listing.exact {
            return Ok(Answer::Override(self.override_at(caller, &target)?));
        }
        let page = self.list_overrides(caller, &target, listing.after.as_deref(), most)?;
        Ok(Answer::Overrides(page))
    }

    fn resolved<'q, 'a>(
        &self,
        caller: &Caller,
        scope: Scope,
        question: &'q Question<'a>,
    ) -> Result<(Arc<ActivePolicy>, &'q Question<'a>), ServiceError> {
        let key = question.key.into();
        let active = self.policy_for(caller, scope, question.policy, key)?;
        Ok((active, question))
    }

    fn of_lease(
        &self,
        caller: &Caller,
        of: &OfLease<'_>,
    ) -> Result<Arc<ActivePolicy>, ServiceError> {
        self.policy_for(caller, Scope::Decide, of.policy, of.key.into())
    }

    fn listed<'a>(
        &self,
        caller: &Caller,
        policy: &str,
        listing: &'a Listing<'_>,
    ) -> Result<(Arc<ActivePolicy>, PageOf<'a>), ServiceError> {
        let most = spans::entered(bounds::page(listing.most))?;
        let active = self.policy(caller, Scope::Observe, policy)?;
        let page = PageOf {
            select: listing.select,
            after: listing.after.as_deref(),
            most,
        };
        Ok((active, page))
    }
}

async fn finish(
    active: Arc<ActivePolicy>,
    of: &OfLease<'_>,
    how: Finish<'_>,
    report: &Report,
) -> Result<Answer, ServiceError> {
    let finished = active.finish(of.key.into(), of.lease, how, report).await?;
    Ok(Answer::Finished(active, finished))
}

impl Uses<'_> {
    /// An adjustment to nothing is a mistake.
    fn name_something(&self) -> Result<(), ServiceError> {
        match self.cost.is_some() || !self.amounts.is_empty() {
            true => Ok(()),
            false => spans::entered(Err(ServiceError::Form {
                field: Field::Amounts,
                wrong: "say how much the lease is to have taken, by limit or by a cost",
            })),
        }
    }
}

impl OverrideOf<'_> {
    fn target(&self) -> Result<OverrideTarget, ServiceError> {
        OverrideTarget::read(self.policy, self.key)
    }
}

impl Question<'_> {
    fn belongs_to_no_member(&self) -> Result<(), ServiceError> {
        match self.member {
            None => Ok(()),
            Some(_) => spans::entered(Err(ServiceError::Form {
                field: Field::Member,
                wrong: "it belongs to a debit, a peek and a forecast; the pool chooses here",
            })),
        }
    }

    /// The same; one that says no amount asks for nothing of rates and budgets.
    fn or_nothing(mut self) -> Self {
        if self.amounts.is_empty() && self.cost.is_none() {
            self.cost = Some(Number::Units(0));
        }
        self
    }

    /// As the engine is asked.
    #[inline]
    fn request<'a>(
        &self,
        active: &ActivePolicy,
        in_units: &'a [(&'a str, u64)],
    ) -> Result<Request<'a>, ServiceError> {
        active.request(self.cost, self.member, in_units)
    }
}

impl ActivePolicy {
    #[inline]
    fn in_units<'a>(&self, amounts: &[(&'a str, Number<'_>)]) -> Result<InUnits<'a>, ServiceError> {
        let amounts = amounts.iter();
        let in_units = amounts.map(|(name, number)| Ok((*name, self.amount(name, *number)?)));
        spans::entered(in_units.collect())
    }

    /// So much of the limits that are named, and `cost` of every rate that is not.
    #[inline]
    fn request<'a>(
        &self,
        cost: Option<Number<'_>>,
        member: Option<&str>,
        in_units: &'a [(&'a str, u64)],
    ) -> Result<Request<'a>, ServiceError> {
        let request = Request::named(in_units);
        Ok(match cost {
            Some(cost) => request.cost(spans::entered(self.cost(cost, member, in_units))?),
            None => request,
        })
    }
}
