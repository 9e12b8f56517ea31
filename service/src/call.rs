//! What a protocol asks, as it was sent: numbers as they were said, and nothing looked up.
//! [`Service::call`] holds it to its bounds, finds the policy, and answers.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::access::Caller;
use super::active_policy::{ActivePolicy, Charge};
use super::amounts::{Amounts, Number};
use super::answer::{Acquisition, Answer, Decided};
use super::audit::{Action, EventDraft};
use super::bounds;
use super::entities::{EntityChange, EntityPath, EntityTerms, NewEntity, check_id, of_own_level};
use super::error::{Kind, ServiceError};
use super::field::Field;
use super::finish::{Finish, Report};
use super::granting::Granting;
use super::listing::{LeaseHandle, PublicUsage};
use super::many::check_many;
use super::overrides::{GivenLimit, OverrideTarget, OverrideTerms};
use super::rate::Rate;
use super::service::Service;
use super::spans;
use super::undelivered::Undelivered;
use super::whose::Whose;
use tidegate::internal::{RequestInternals, is_grant, random_lease_id};
use tidegate::{Error, Key, LeaseId, PageOf, Request, RequestError, Select, Timestamp};
use tidegate_policy::Scope;
use tidegate_store::Page;

/// The same, in the limits' units.
type InUnits<'a> = SmallVec<[(&'a str, u64); 8]>;

/// What a protocol asks of the service.
#[derive(Clone, Debug)]
pub enum Call<'a> {
    /// Take it, if it fits.
    Check(Question<'a>),
    /// Each of these by itself, in order: 1 to 1,000. What is wrong with one in the
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
    /// Units to be spent without asking.
    Grant(Question<'a>, Box<GrantTerms<'a>>),
    /// A grant is over, and so much of it was used.
    Return(OfLease<'a>, Uses<'a>),
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
    Reset(&'a str, Whose<'a>),
    /// End the lease of a key of a policy that has this handle.
    Revoke(&'a str, Whose<'a>, LeaseHandle),
    /// The keys of a policy.
    Keys(&'a str, Listing<'a>),
    /// What the keys of a policy come to, of the limits of a level or of all.
    Capacity(&'a str, Option<&'a str>, Listing<'a>),
    /// What nodes took in advance of a policy.
    Fleet(&'a str, Listing<'a>),
    /// The leases that are held of a policy.
    Leases(&'a str, Listing<'a>),
    /// What was used of a policy, hour by hour.
    Usage(&'a str, UsageListing<'a>),
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
    /// A new entity, and why.
    CreateEntity(NewEntity<'a>, Option<&'a str>),
    /// Something else is said of an entity.
    ChangeEntity(&'a str, EntityChange<'a>, EntityTerms<'a>),
    /// An entity is no more.
    DeleteEntity(&'a str, EntityTerms<'a>),
    /// One entity, by its id.
    Entity(&'a str),
    /// Entities: all of them, or the children of one.
    Entities(EntityListing<'a>),
    /// A new namespace, and why.
    CreateNamespace(&'a str, Option<&'a str>),
    /// A namespace answers nobody, and why.
    DeleteNamespace(&'a str, Option<&'a str>),
    /// A deleted namespace answers again, and why.
    RestoreNamespace(&'a str, Option<&'a str>),
    /// What a deleted namespace has is removed, and why.
    PurgeNamespace(&'a str, Option<&'a str>),
    /// One namespace.
    Namespace(&'a str),
    /// A page of namespaces, by name: where it goes on, and how many it has (1 to 1,000; 100 if
    /// not said).
    Namespaces(Option<Cow<'a, [u8]>>, Option<u64>),
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
    pub whose: Whose<'a>,
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

/// On which terms units are granted.
#[derive(Clone, Debug, Default)]
pub struct GrantTerms<'a> {
    /// How much of which limits makes sense at least; one unit of each that is not named.
    pub least: Amounts<'a>,
    /// For how long it is held at most, in milliseconds (10 to 60,000); as long as the policy's
    /// tier holds one, or a second, if not said.
    pub hold_ms: Option<u64>,
    /// The id of the lease that it is to be, by which a caller who lost the answer returns it.
    pub lease: Option<LeaseId>,
}

/// Which lease.
#[derive(Clone, Copy, Debug)]
pub struct OfLease<'a> {
    /// The policy's name.
    pub policy: &'a str,
    /// Whose it is.
    pub whose: Whose<'a>,
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
    /// An entity whose key is meant, in place of `key`.
    pub entity: Option<&'a str>,
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
    /// Those of this entity alone.
    pub entity: Option<&'a str>,
    /// Those from this instant on.
    pub since: Option<Timestamp>,
    /// Those before this instant.
    pub until: Option<Timestamp>,
    /// Where it goes on: the end of the page before.
    pub after: Option<Cow<'a, [u8]>>,
    /// How many: 1 to 1,000; 100 if not said.
    pub most: Option<u64>,
}

/// Which page of what was used.
#[derive(Clone, Debug)]
pub struct UsageListing<'a> {
    /// Of which keys, where it goes on, and how many records.
    pub listing: Listing<'a>,
    /// Of this entity alone; then `listing` selects all.
    pub entity: Option<&'a str>,
    /// In the hours from that of this instant on; from the first if not said.
    pub since: Option<Timestamp>,
    /// In the hours before this instant; to the last if not said.
    pub until: Option<Timestamp>,
}

/// Which page of the entities.
#[derive(Clone, Debug, Default)]
pub struct EntityListing<'a> {
    /// The children of this one alone.
    pub of: Option<&'a str>,
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

impl Call<'_> {
    /// Whether it is about namespaces themselves: then it matters not in which the caller is.
    const fn is_of_namespaces(&self) -> bool {
        matches!(
            self,
            Self::CreateNamespace(..)
                | Self::DeleteNamespace(..)
                | Self::RestoreNamespace(..)
                | Self::PurgeNamespace(..)
                | Self::Namespace(_)
                | Self::Namespaces(..)
        )
    }
}

/// An answer to what is asked less often than a check: in a box, which takes no room of a check's
/// and of which no protocol has a copy.
type Later<'a> = Pin<Box<dyn Future<Output = Result<Answer, ServiceError>> + Send + 'a>>;

impl Service {
    /// Answers `call`, for `caller`, in the namespace that they are in.
    ///
    /// # Errors
    /// [`ServiceError`]: what is out of its bounds, before what there is not; as the verbs of
    /// [`ActivePolicy`]; of a namespace that is deleted or not there,
    /// [`ServiceError::Namespace`].
    #[inline]
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` moves what it is given once more"
    )]
    pub fn call(
        &self,
        caller: &Caller,
        call: Call<'_>,
    ) -> impl Future<Output = Result<Answer, ServiceError>> + Send {
        async move {
            if self.is_home_of(caller) || call.is_of_namespaces() {
                self.call_here(caller, call).await
            } else {
                // Whoever is in no namespace takes no room for it.
                let answer = self.call_away(caller, call).await;
                spans::record_error(answer)
            }
        }
    }

    /// Answers `call` by what is here.
    #[inline]
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` moves what it is given once more"
    )]
    pub(super) fn call_here(
        &self,
        caller: &Caller,
        call: Call<'_>,
    ) -> impl Future<Output = Result<Answer, ServiceError>> + Send {
        async move {
            match call {
                Call::Check(ref question) => {
                    let meant = self.meant(caller, Scope::Decide, question).await?;
                    question.belongs_to_no_member()?;
                    let said = meant.said(question);
                    let in_units = said.in_units(&meant)?;
                    let request = said.request(&meant, &in_units)?;
                    let charge = meant.active.check(&*meant.key, request).await?;
                    Ok(Answer::Decided(meant.charged(charge)))
                }
                Call::Throttle(key, rate, quantity) => {
                    let rated = self.decide_by_rate(caller, key, rate, quantity);
                    Ok(Answer::Rated(rated.await?))
                }
                // What is asked less often takes no room of a check's.
                call => self.call_lease(caller, call).await,
            }
        }
    }

    #[inline(never)]
    fn call_lease<'a, 'c: 'a>(&'a self, caller: &'a Caller, call: Call<'c>) -> Later<'a> {
        Box::pin(self.answer_lease(caller, call))
    }

    #[inline(never)]
    fn call_other<'a, 'c: 'a>(&'a self, caller: &'a Caller, call: Call<'c>) -> Later<'a> {
        Box::pin(self.answer_other(caller, call))
    }

    #[inline(never)]
    fn call_away<'a, 'c: 'a>(&'a self, caller: &'a Caller, call: Call<'c>) -> Later<'a> {
        Box::pin(self.answer_away(caller, call))
    }

    /// Answers what begins, changes and ends leases.
    async fn answer_lease(&self, caller: &Caller, call: Call<'_>) -> Result<Answer, ServiceError> {
        match call {
            Call::Acquire(question, terms) => self.acquire(caller, &question, terms).await,
            Call::Grant(question, terms) => self.grant(caller, &question, &terms).await,
            Call::Return(of, used) => {
                let meant = self.of_lease(caller, &of).await?;
                let said = meant.said_of_lease(&used);
                let in_units = said.in_units(&meant)?;
                let used = said.request(&meant, &in_units)?;
                finish(&meant, of.lease, Finish::Return(used), &Report::default()).await
            }
            Call::Settle(of, report, used) => {
                let meant = self.of_lease(caller, &of).await?;
                let said = meant.said_of_lease(&used);
                let in_units = said.in_units(&meant)?;
                let used = said.request(&meant, &in_units)?;
                finish(&meant, of.lease, Finish::Settle(used), &report).await
            }
            Call::Release(of, report) => {
                let meant = self.of_lease(caller, &of).await?;
                finish(&meant, of.lease, Finish::Release, &report).await
            }
            Call::Cancel(of, report) => {
                let meant = self.of_lease(caller, &of).await?;
                finish(&meant, of.lease, Finish::Cancel, &report).await
            }
            Call::Renew(of, ttl_ms) => {
                let meant = self.of_lease(caller, &of).await?;
                let ttl = ttl_ms.map(Duration::from_millis);
                let renewed = meant.active.renew(meant.key(), of.lease, ttl).await?;
                Ok(Answer::Renewed(renewed))
            }
            Call::Adjust(of, to, overdraw) => {
                to.name_something()?;
                let meant = self.of_lease(caller, &of).await?;
                let said = meant.said_of_lease(&to);
                let in_units = said.in_units(&meant)?;
                let to = said.request(&meant, &in_units)?;
                let adjusted = meant.active.adjust(meant.key(), of.lease, to, overdraw);
                let decision = adjusted.await?;
                Ok(Answer::Decided(meant.charged(Charge::Decided(decision))))
            }
            // Nor of a lease's.
            call => self.call_other(caller, call).await,
        }
    }

    async fn answer_other(&self, caller: &Caller, call: Call<'_>) -> Result<Answer, ServiceError> {
        match call {
            Call::Check(_)
            | Call::Throttle(..)
            | Call::Acquire(..)
            | Call::Grant(..)
            | Call::Return(..)
            | Call::Settle(..)
            | Call::Release(..)
            | Call::Cancel(..)
            | Call::Renew(..)
            | Call::Adjust(..) => unreachable!("answered before"),
            Call::CheckMany(questions) => self.check_each(caller, questions).await,
            Call::Debit(question) => {
                let meant = self.meant(caller, Scope::Decide, &question).await?;
                let said = meant.said(&question);
                let in_units = said.in_units(&meant)?;
                let request = said.request(&meant, &in_units)?;
                let active = &meant.active;
                let charge = active
                    .debit_at(question.member, &*meant.key, request)
                    .await?;
                Ok(Answer::Charged(meant.charged(charge)))
            }
            Call::Peek(question) => {
                let question = question.or_nothing();
                let meant = self.meant(caller, Scope::Observe, &question).await?;
                let said = meant.said(&question);
                let in_units = said.in_units(&meant)?;
                let request = said.request(&meant, &in_units)?;
                let active = &meant.active;
                let decision = active.peek_at(question.member, &*meant.key, request);
                let decision = decision.await.map_err(|error| meant.of_level(error))?;
                let member = question.member.or(decision.member());
                let overridden = self.overridden(active, member, meant.key());
                let decided = meant.charged(Charge::Decided(decision));
                Ok(Answer::Foretold(decided, overridden))
            }
            Call::Forecast(question) => {
                let question = question.or_nothing();
                let meant = self.meant(caller, Scope::Observe, &question).await?;
                let said = meant.said(&question);
                let in_units = said.in_units(&meant)?;
                let request = said.request(&meant, &in_units)?;
                let active = &meant.active;
                let forecast = active.forecast(question.member, &*meant.key, request);
                let forecasts = forecast.await.map_err(|error| meant.of_level(error))?;
                // Of a pool as a whole, one may be all that could serve the request.
                let is_one = question.member.is_some() || !active.policy().is_pool();
                Ok(Answer::Forecast(Arc::clone(active), forecasts, is_one))
            }
            Call::Reset(policy, whose) => {
                let meant = self
                    .policy_of(caller, Scope::Administer, policy, whose)
                    .await?;
                let (active, key) = (&meant.active, meant.key());
                let draft = EventDraft::of(Action::Reset);
                let reset = active.reset(caller, key);
                let reset = self.audited_key(caller, (policy, key), &draft, reset).await;
                spans::record_error(reset)??;
                Ok(Answer::Forgotten)
            }
            Call::Revoke(policy, whose, handle) => {
                let meant = self
                    .policy_of(caller, Scope::Administer, policy, whose)
                    .await?;
                let (active, key) = (&meant.active, meant.key());
                let lease = spans::record_error(active.find_lease(key, handle).await)?;
                let draft = EventDraft {
                    details: &[handle.to_string()],
                    ..EventDraft::of(Action::Revoke)
                };
                let revoked = active.revoke(caller, key, lease);
                let revoked = self
                    .audited_key(caller, (policy, key), &draft, revoked)
                    .await;
                let finished = spans::record_error(revoked)??;
                Ok(Answer::Finished(Arc::clone(active), finished))
            }
            Call::Keys(policy, listing) => {
                let (active, page) = self.listed(caller, policy, &listing)?;
                let page = active.list_keys(page).await?;
                Ok(Answer::Keys(active, page))
            }
            Call::Capacity(policy, level, listing) => {
                let (active, page) = self.listed(caller, policy, &listing)?;
                let page = active.capacity(level, page).await?;
                Ok(Answer::Capacity(active, page))
            }
            Call::Fleet(policy, listing) => {
                let (active, page) = self.listed(caller, policy, &listing)?;
                let page = active.fleet(page).await?;
                Ok(Answer::Fleet(active, page))
            }
            Call::Leases(policy, listing) => {
                let (active, page) = self.listed(caller, policy, &listing)?;
                let page = active.list_leases(page).await?;
                Ok(Answer::Leases(active, page))
            }
            Call::Usage(policy, listing) => {
                let (active, page) = self.used(caller, policy, &listing).await?;
                Ok(Answer::Usage(active, page))
            }
            Call::Denied(policy, most) => Ok(Answer::Denied(self.denied(caller, policy, most)?)),
            Call::WatchDenials(policy) => Ok(Answer::Denials(self.denial_watch(caller, policy)?)),
            Call::SetOverride(of, limits, terms) => {
                let target = self.target(caller, Scope::Administer, &of).await;
                let target = spans::record_error(target)?;
                let stored_override = self.write_override(caller, &target, &limits, &terms);
                Ok(Answer::OverrideSet(spans::record_error(
                    stored_override.await,
                )?))
            }
            Call::RemoveOverride(of, terms) => {
                let target = self.target(caller, Scope::Administer, &of).await;
                let target = spans::record_error(target)?;
                let removed = self.remove_override_on(caller, &target, &terms).await;
                Ok(Answer::Removed(target, spans::record_error(removed)?))
            }
            Call::Audit(listing) => {
                let most = spans::record_error(bounds::page(listing.most))?;
                let of = self.target(caller, Scope::Observe, &listing.of).await;
                let of = spans::record_error(of)?;
                if let Some(id) = listing.entity {
                    spans::record_error(check_id(Field::Entity, id))?;
                }
                let page = (listing.after.as_deref(), most);
                let within = [listing.since, listing.until];
                let of = (&of, listing.entity);
                let page = self.audit(caller, of, within, page).await;
                Ok(Answer::Audit(spans::record_error(page)?))
            }
            Call::Overrides(listing) => spans::record_error(self.list(caller, &listing).await),
            Call::CreateEntity(new, reason) => {
                let created = self.create_entity(caller, &new, reason).await;
                Ok(Answer::EntityKept(spans::record_error(created)?))
            }
            Call::ChangeEntity(id, change, terms) => {
                let changed = self.change_entity(caller, id, &change, &terms).await;
                Ok(Answer::EntityKept(spans::record_error(changed)?))
            }
            Call::DeleteEntity(id, terms) => {
                spans::record_error(self.delete_entity(caller, id, &terms).await)?;
                Ok(Answer::Forgotten)
            }
            Call::Entity(id) => {
                let (entity, ancestors) = spans::record_error(self.entity(caller, id).await)?;
                Ok(Answer::Entity(entity, ancestors))
            }
            Call::Entities(listing) => {
                let most = spans::record_error(bounds::page(listing.most))?;
                let after = listing.after.as_deref();
                let page = self.entities(caller, listing.of, after, most).await;
                Ok(Answer::Entities(spans::record_error(page)?))
            }
            Call::CreateNamespace(name, reason) => {
                let created = self.create_namespace(caller, name, reason).await;
                Ok(Answer::Namespace(spans::record_error(created)?))
            }
            Call::DeleteNamespace(name, reason) => {
                let deleted = self.delete_namespace(caller, name, reason).await;
                Ok(Answer::Namespace(spans::record_error(deleted)?))
            }
            Call::RestoreNamespace(name, reason) => {
                let restored = self.restore_namespace(caller, name, reason).await;
                Ok(Answer::Namespace(spans::record_error(restored)?))
            }
            Call::PurgeNamespace(name, reason) => {
                let purged = self.purge_namespace(caller, name, reason).await;
                Ok(Answer::Purged(spans::record_error(purged)?))
            }
            Call::Namespace(name) => {
                let found = self.namespace(caller, name).await;
                Ok(Answer::Namespace(spans::record_error(found)?))
            }
            Call::Namespaces(after, most) => {
                let most = spans::record_error(bounds::page(most))?;
                let page = self.list_namespaces(caller, after.as_deref(), most).await;
                Ok(Answer::Namespaces(spans::record_error(page)?))
            }
            Call::Policies => {
                spans::record_error(caller.check_some(Scope::Observe))?;
                Ok(Answer::Policies(self.policies(caller)))
            }
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
        spans::record_error(bounds::checks(questions.len()))?;
        let mut all_meant = Vec::with_capacity(questions.len());
        for question in &questions {
            all_meant.push(match question {
                Ok(question) => self.meant(caller, Scope::Decide, question).await,
                Err(error) => Err(error.clone()),
            });
        }
        let said = questions.iter().zip(&all_meant).map(|(question, meant)| {
            let meant = meant.as_ref().map_err(Clone::clone)?;
            let question = question.as_ref().map_err(Clone::clone)?;
            question.belongs_to_no_member()?;
            Ok((meant, meant.said(question)))
        });
        let said: Vec<Result<_, ServiceError>> = said.collect();
        let in_units = said.iter().map(|said| {
            let (meant, said) = said.as_ref().map_err(Clone::clone)?;
            Ok((meant, said, said.in_units(meant)?))
        });
        let in_units: Vec<Result<_, ServiceError>> = in_units.collect();
        let checks = in_units.iter().map(|in_units| {
            let (meant, said, in_units) = in_units.as_ref().map_err(Clone::clone)?;
            let request = said.request(meant, in_units)?;
            Ok((Arc::clone(&meant.active), meant.key(), request))
        });
        let answers = check_many::<ServiceError>(checks.collect()).await;
        let answers = answers.into_iter().zip(&all_meant);
        let decided = answers.map(|(answer, meant)| {
            let (_, charge) = answer?;
            Ok(meant.as_ref().map_err(Clone::clone)?.charged(charge))
        });
        Ok(Answer::Many(decided.collect()))
    }

    async fn acquire(
        &self,
        caller: &Caller,
        question: &Question<'_>,
        terms: Terms<'_>,
    ) -> Result<Answer, ServiceError> {
        let priority = spans::record_error(bounds::priority(terms.priority))?;
        let meant = self.meant(caller, Scope::Decide, question).await?;
        question.belongs_to_no_member()?;
        let said = meant.said(question);
        let in_units = said.in_units(&meant)?;
        let mut request = said.request(&meant, &in_units)?;
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
        let (active, key) = (&meant.active, meant.key());
        let acquired = active.acquire(key, request).await?;
        let lease = Undelivered::of(active, key, &acquired, terms.idempotency.is_some());
        Ok(Answer::Acquired(Acquisition {
            active: Arc::clone(active),
            acquired,
            lease: lease.map(Arc::new),
            path: meant.path.clone(),
        }))
    }

    async fn grant(
        &self,
        caller: &Caller,
        question: &Question<'_>,
        terms: &GrantTerms<'_>,
    ) -> Result<Answer, ServiceError> {
        let hold = spans::record_error(terms.hold_ms.map(bounds::hold).transpose())?;
        let id = spans::record_error(terms.id())?;
        let meant = self.meant(caller, Scope::Decide, question).await?;
        question.belongs_to_no_member()?;
        let (said, least) = (meant.said(question), meant.said_least(terms));
        let (in_units, least) = (said.in_units(&meant)?, least.in_units(&meant)?);
        let wished = said.request(&meant, &in_units)?;
        let (active, key) = (&meant.active, meant.key());
        let granted = active.grant(key, id, (wished, Request::named(&least)), hold);
        let granted = granted.await.inspect_err(|error| {
            // It may have been granted all the same. Who chose the id returns it by that: it may be
            // of a grant that was told before.
            if terms.lease.is_none() && error.kind() == Kind::Unavailable {
                drop(Undelivered::of_lease(active, key, id));
            }
        })?;
        let path = meant.path.clone();
        Ok(Answer::Granted(Granting::new(active, key, granted, path)))
    }

    async fn list(
        &self,
        caller: &Caller,
        listing: &OverrideListing<'_>,
    ) -> Result<Answer, ServiceError> {
        let most = bounds::page(listing.most)?;
        let target = self.target(caller, Scope::Observe, &listing.of).await?;
        if listing.exact {
            return Ok(Answer::Override(self.override_at(caller, &target)?));
        }
        let page = self.list_overrides(caller, &target, listing.after.as_deref(), most)?;
        Ok(Answer::Overrides(page))
    }

    #[inline]
    async fn meant<'a>(
        &self,
        caller: &Caller,
        scope: Scope,
        question: &Question<'a>,
    ) -> Result<Meant<'a>, ServiceError> {
        let meant = self
            .policy_of(caller, scope, question.policy, question.whose)
            .await?;
        // What is taken is taken of every level; a look, and the end of a lease, is of any.
        if let (Scope::Decide, Some(path)) = (scope, &meant.path) {
            spans::record_error(path.check_level(&meant.active).map_err(ServiceError::from))?;
        }
        Ok(meant)
    }

    async fn of_lease<'a>(
        &self,
        caller: &Caller,
        of: &OfLease<'a>,
    ) -> Result<Meant<'a>, ServiceError> {
        self.policy_of(caller, Scope::Decide, of.policy, of.whose)
            .await
    }

    /// The policy, and whose limits of it are meant. Who may not ask the policy is told nothing
    /// of entities.
    #[inline]
    async fn policy_of<'a>(
        &self,
        caller: &Caller,
        scope: Scope,
        policy: &str,
        whose: Whose<'a>,
    ) -> Result<Meant<'a>, ServiceError> {
        let active = match whose {
            Whose::Key(key) => self.policy_for(caller, scope, policy, key.into())?,
            Whose::Entity(_) => self.policy(caller, scope, policy)?,
        };
        let found = spans::record_error(self.found(whose).await)?;
        if let Some(path) = &found.path {
            spans::record_error(path.check_reach(&active).map_err(ServiceError::from))?;
        }
        Ok(Meant {
            active,
            key: found.key,
            path: found.path,
        })
    }

    /// What an override is for. Who may not do that of the policy is told nothing of entities.
    async fn target(
        &self,
        caller: &Caller,
        scope: Scope,
        of: &OverrideOf<'_>,
    ) -> Result<OverrideTarget, ServiceError> {
        let Some(id) = of.entity else {
            return OverrideTarget::read(of.policy, of.key);
        };
        if of.key.is_some() {
            return Err(ServiceError::Form {
                field: Field::Entity,
                wrong: "it stands in place of a key; give one of the two",
            });
        }
        caller.check(scope, of.policy)?;
        let path = self.entity_path(id).await?;
        match of.policy {
            Some(policy) => path.check_reach(&*self.policy(caller, scope, policy)?)?,
            None if path.level() > 1 => {
                return Err(ServiceError::Form {
                    field: Field::Policy,
                    wrong: "this entity has a parent, so its limits are those of one policy with \
                            levels: name that policy",
                });
            }
            None => {}
        }
        OverrideTarget::read(of.policy, Some(&path.row()))
    }

    async fn used(
        &self,
        caller: &Caller,
        policy: &str,
        wanted: &UsageListing<'_>,
    ) -> Result<(Arc<ActivePolicy>, Page<PublicUsage>), ServiceError> {
        let (active, mut page) = self.listed(caller, policy, &wanted.listing)?;
        let path = match wanted.entity {
            Some(id) => Some(spans::record_error(self.entity_path(id).await)?),
            None => None,
        };
        if let Some(path) = &path {
            spans::record_error(path.check_reach(&active).map_err(ServiceError::from))?;
            page.select = Select::Key(path.key());
        }
        let since = wanted.since.unwrap_or(Timestamp::from_micros(0));
        let until = wanted.until.unwrap_or(Timestamp::MAX);
        let used = active.list_usage(page, since, until).await?;
        Ok((active, used))
    }

    fn listed<'a>(
        &self,
        caller: &Caller,
        policy: &str,
        listing: &'a Listing<'_>,
    ) -> Result<(Arc<ActivePolicy>, PageOf<'a>), ServiceError> {
        let most = spans::record_error(bounds::page(listing.most))?;
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
    meant: &Meant<'_>,
    lease: LeaseId,
    how: Finish<'_>,
    report: &Report,
) -> Result<Answer, ServiceError> {
    let finished = meant.active.finish(meant.key(), lease, how, report);
    Ok(Answer::Finished(Arc::clone(&meant.active), finished.await?))
}

/// A policy, and whose limits of it.
struct Meant<'a> {
    active: Arc<ActivePolicy>,
    key: Cow<'a, [u8]>,
    /// Of an entity: it and its ancestors.
    path: Option<Arc<EntityPath>>,
}

/// How much is asked of the limits.
struct Said<'a> {
    cost: Option<Number<'a>>,
    member: Option<&'a str>,
    amounts: Cow<'a, [(&'a str, Number<'a>)]>,
}

impl Meant<'_> {
    /// Why nothing was said of an entity that is above the keys of the policy: nobody wrote a key.
    fn of_level(&self, error: impl Into<ServiceError>) -> ServiceError {
        let error = error.into();
        let is_depth = matches!(
            &error,
            ServiceError::Limits(Error::Request(RequestError::KeyDepth { .. }))
        );
        let path = self.path.as_ref().filter(|_| is_depth);
        match path.map(|path| path.check_level(&self.active)) {
            Some(Err(wrong)) => wrong.into(),
            _ => error,
        }
    }

    #[inline]
    fn key(&self) -> Key<'_> {
        Key::from(&*self.key)
    }

    fn charged(&self, charge: Charge) -> Decided {
        Decided::charged(Arc::clone(&self.active), charge, self.path.clone())
    }

    /// What `question` asks, of the limits that are to be asked.
    #[inline]
    fn said<'s>(&'s self, question: &'s Question<'_>) -> Said<'s> {
        let asked = (question.cost, question.member, &*question.amounts);
        self.said_by(asked, true)
    }

    fn said_of_lease<'s>(&'s self, uses: &'s Uses<'_>) -> Said<'s> {
        self.said_by((uses.cost, None, &uses.amounts), false)
    }

    fn said_least<'s>(&'s self, terms: &'s GrantTerms<'_>) -> Said<'s> {
        self.said_by((None, None, &terms.least), false)
    }

    #[inline]
    fn said_by<'s>(
        &'s self,
        (cost, member, amounts): (
            Option<Number<'s>>,
            Option<&'s str>,
            &'s [(&'s str, Number<'s>)],
        ),
        is_taken_now: bool,
    ) -> Said<'s> {
        match &self.path {
            Some(path) if !path.charges_parents() => {
                let asked = (cost, amounts);
                let amounts = of_own_level(&self.active, path, asked, is_taken_now);
                Said {
                    cost: None,
                    member,
                    amounts: amounts.into_vec().into(),
                }
            }
            _ => Said {
                cost,
                member,
                amounts: amounts.into(),
            },
        }
    }
}

impl Said<'_> {
    #[inline]
    fn in_units(&self, meant: &Meant<'_>) -> Result<InUnits<'_>, ServiceError> {
        meant.active.in_units(&self.amounts)
    }

    /// As the engine is asked.
    #[inline]
    fn request<'u>(
        &self,
        meant: &Meant<'_>,
        in_units: &'u [(&'u str, u64)],
    ) -> Result<Request<'u>, ServiceError> {
        meant.active.request(self.cost, self.member, in_units)
    }
}

impl GrantTerms<'_> {
    /// The lease that it is to be.
    fn id(&self) -> Result<LeaseId, ServiceError> {
        match self.lease {
            Some(id) if is_grant(id.to_u128()) => Err(ServiceError::Form {
                field: Field::Lease,
                wrong: "ids that begin with 6772616e742e7467 are reserved for grants that servers \
                        take; draw another at random",
            }),
            Some(id) => Ok(id),
            None => Ok(random_lease_id()),
        }
    }
}

impl Uses<'_> {
    /// An adjustment to nothing is a mistake.
    fn name_something(&self) -> Result<(), ServiceError> {
        match self.cost.is_some() || !self.amounts.is_empty() {
            true => Ok(()),
            false => spans::record_error(Err(ServiceError::Form {
                field: Field::Amounts,
                wrong: "say how much the lease is to have taken, by limit or by a cost",
            })),
        }
    }
}

impl Question<'_> {
    fn belongs_to_no_member(&self) -> Result<(), ServiceError> {
        match self.member {
            None => Ok(()),
            Some(_) => spans::record_error(Err(ServiceError::Form {
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
}

impl ActivePolicy {
    #[inline]
    fn in_units<'a>(&self, amounts: &[(&'a str, Number<'_>)]) -> Result<InUnits<'a>, ServiceError> {
        let amounts = amounts.iter();
        let in_units = amounts.map(|(name, number)| Ok((*name, self.amount(name, *number)?)));
        spans::record_error(in_units.collect())
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
            Some(cost) => request.cost(spans::record_error(self.cost(cost, member, in_units))?),
            None => request,
        })
    }
}
