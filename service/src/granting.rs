//! Units that were granted to be spent elsewhere, with what it takes to write that out.

use std::sync::Arc;

use super::active_policy::ActivePolicy;
use super::entities::EntityPath;
use super::told::Told;
use super::undelivered::Undelivered;
use tidegate::internal::{LimitInternals, granted_limits};
use tidegate::{Admission, Amount, Grant, Key, Limit};

/// The answer to a request for a grant, and whose.
#[derive(Debug)]
#[non_exhaustive]
pub struct Granting {
    active: Arc<ActivePolicy>,
    granted: Admission<Grant>,
    /// What is to be given back unless it is delivered.
    pub lease: Option<Arc<Undelivered>>,
    path: Option<Arc<EntityPath>>,
}

impl Granting {
    pub(super) fn new(
        active: &Arc<ActivePolicy>,
        key: Key<'_>,
        granted: Admission<Grant>,
        path: Option<Arc<EntityPath>>,
    ) -> Self {
        let lease = match &granted {
            Admission::Granted(grant) => Some(Undelivered::of_lease(active, key, grant.id())),
            Admission::Refused(_) => None,
        };
        Self {
            active: Arc::clone(active),
            granted,
            lease: lease.map(Arc::new),
            path,
        }
    }

    /// With what it takes to write it out.
    #[must_use]
    pub fn told(&self) -> Told<'_> {
        Told::granting(&self.active, &self.granted).of_entity(self.path.as_deref())
    }

    /// What was granted; `None` if nothing was.
    #[must_use]
    pub const fn grant(&self) -> Option<&Grant> {
        match &self.granted {
            Admission::Granted(grant) => Some(grant),
            Admission::Refused(_) => None,
        }
    }

    /// The limits that whoever spends it is held to, with what was granted of each.
    pub fn amounts(&self) -> impl Iterator<Item = (&Limit, Amount)> {
        let limits = self.grant().into_iter().flat_map(granted_limits);
        limits.filter(|(limit, _)| self.is_charged(limit))
    }

    /// Whether the entity that was asked is charged for it: all but a limit of an ancestor whose
    /// limits do not count.
    fn is_charged(&self, limit: &Limit) -> bool {
        match &self.path {
            Some(path) if !path.charges_parents() => {
                let levels = &self.active.policy().levels;
                limit.level_in(levels) == Ok(path.level() - 1)
            }
            _ => true,
        }
    }
}
