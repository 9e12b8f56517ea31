//! What a protocol is answered, with what it takes to write that out.

use std::sync::Arc;

use tidegate_store::Page;

use super::active_policy::{Acquired, ActivePolicy, Charge};
use super::audit::AuditEvent;
use super::capacity::Capacity;
use super::denial_watch::DenialWatch;
use super::denials::Frequent;
use super::entities::{Entity, EntityPath};
use super::error::ServiceError;
use super::finish::{Finished, Renewed};
use super::fleet::Fleet;
use super::granting::Granting;
use super::listing::{PublicLease, PublicUsage};
use super::member_forecast::MemberForecast;
use super::namespaces::{Namespace, Purge};
use super::overrides::{Level, OverrideTarget, StoredOverride};
use super::rated::Rated;
use super::told::Told;
use super::undelivered::Undelivered;
use tidegate::ListedKey;

/// What a [`Call`](super::Call) is answered.
#[derive(Debug)]
pub enum Answer {
    /// Whether it may start, or take more: to a check and an adjustment.
    Decided(Decided),
    /// The answers to the checks of a batch, in their order.
    Many(Vec<Result<Decided, ServiceError>>),
    /// It is charged: to a debit.
    Charged(Decided),
    /// What would be decided, and the limits whose numbers are an override's: to a peek.
    Foretold(Decided, Vec<(String, Level)>),
    /// What fits, and whether that is of one set of limits (`true`) or of a pool's members.
    Forecast(Arc<ActivePolicy>, Vec<MemberForecast>, bool),
    /// A lease, or why not.
    Acquired(Acquisition),
    /// Units to be spent without asking, or why there are none.
    Granted(Granting),
    /// How a lease has ended.
    Finished(Arc<ActivePolicy>, Finished),
    /// When a lease expires now, and for how long that is.
    Renewed(Renewed),
    /// The key is forgotten.
    Forgotten,
    /// Keys, and where the next page begins.
    Keys(Arc<ActivePolicy>, Page<ListedKey>),
    /// What a page of keys comes to, and where the next page begins.
    Capacity(Arc<ActivePolicy>, Page<Capacity>),
    /// What nodes took in advance, and where the next page begins.
    Fleet(Arc<ActivePolicy>, Page<Fleet>),
    /// Leases, and where the next page begins.
    Leases(Arc<ActivePolicy>, Page<PublicLease>),
    /// What was used, and where the next page begins.
    Usage(Arc<ActivePolicy>, Page<PublicUsage>),
    /// The keys that are refused most often, the most frequent first.
    Denied(Vec<Frequent>),
    /// The refusals that are watched from now on.
    Denials(DenialWatch),
    /// An override that is set now.
    OverrideSet(StoredOverride),
    /// Whether any was set there, and is no more.
    Removed(OverrideTarget, bool),
    /// What is set at exactly one place.
    Override(Option<StoredOverride>),
    /// Overrides, and where the next page begins.
    Overrides(Page<StoredOverride>),
    /// Audit events, and where the next page begins.
    Audit(Page<AuditEvent>),
    /// An entity as it is kept now.
    EntityKept(Entity),
    /// An entity, and the ids of its ancestors, the root's first.
    Entity(Entity, Vec<String>),
    /// Entities, and where the next page begins.
    Entities(Page<Entity>),
    /// A namespace as it is kept now.
    Namespace(Namespace),
    /// Namespaces, and where the next page begins.
    Namespaces(Page<Namespace>),
    /// What was removed of a namespace.
    Purged(Purge),
    /// Policies in use, by name.
    Policies(Vec<Arc<ActivePolicy>>),
    /// One of them.
    Policy(Arc<ActivePolicy>),
    /// What a rate that came with the call has decided.
    Rated(Rated),
}

/// A decision, and whose.
#[derive(Clone, Debug)]
pub struct Decided {
    active: Arc<ActivePolicy>,
    charge: Charge,
    path: Option<Arc<EntityPath>>,
}

/// The answer to a request for a lease, and whose.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Acquisition {
    /// The policy.
    pub active: Arc<ActivePolicy>,
    /// A lease, or why not.
    pub acquired: Acquired,
    /// One that is to be given back unless it is delivered.
    pub lease: Option<Arc<Undelivered>>,
    pub(super) path: Option<Arc<EntityPath>>,
}

impl Acquisition {
    /// With what it takes to write it out.
    #[must_use]
    pub fn told(&self) -> Told<'_> {
        Told::acquired(&self.active, &self.acquired).of_entity(self.path.as_deref())
    }
}

impl Decided {
    pub(super) const fn charged(
        active: Arc<ActivePolicy>,
        charge: Charge,
        path: Option<Arc<EntityPath>>,
    ) -> Self {
        Self {
            active,
            charge,
            path,
        }
    }

    /// With what it takes to write it out.
    #[must_use]
    pub fn told(&self) -> Told<'_> {
        Told::answered(&self.active, &self.charge).of_entity(self.path.as_deref())
    }
}
