//! What a protocol asks, as it was sent: numbers as they were said, and nothing looked up.
//! [`Service::call`](crate::Service::call) holds it to its bounds, finds the policy, and answers.

mod administer;
mod decide;
mod meant;

use std::borrow::Cow;

use super::amounts::{Amounts, Number};
use super::entities::{EntityChange, EntityTerms, NewEntity};
use super::error::ServiceError;
use super::finish::Report;
use super::listing::LeaseHandle;
use super::overrides::{GivenLimit, OverrideTerms};
use super::rate::Rate;
use super::usage::UsageBy;
use super::whose::Whose;
use tidegate::{Key, LeaseId, Select, Timestamp};

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
    /// The periods that are added up.
    pub by: UsageBy,
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
    pub(super) const fn is_of_namespaces(&self) -> bool {
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
