//! What looks at policies, entities and namespaces, and changes them.

use std::sync::Arc;

use super::{Call, Listing, OverrideListing, OverrideOf, UsageListing};
use crate::access::Caller;
use crate::active_policy::ActivePolicy;
use crate::answer::Answer;
use crate::audit::{Action, EventDraft};
use crate::bounds;
use crate::entities::check_id;
use crate::error::ServiceError;
use crate::field::Field;
use crate::listing::PublicUsage;
use crate::overrides::OverrideTarget;
use crate::service::Service;
use crate::spans;
use tidegate::{PageOf, Select, Timestamp};
use tidegate_policy::Scope;
use tidegate_store::Page;

impl Service {
    /// Answers what is about no decision.
    pub(super) async fn administer(
        &self,
        caller: &Caller,
        call: Call<'_>,
    ) -> Result<Answer, ServiceError> {
        match call {
            Call::Check(_)
            | Call::Throttle(..)
            | Call::CheckMany(_)
            | Call::Debit(_)
            | Call::Peek(_)
            | Call::Forecast(_)
            | Call::Acquire(..)
            | Call::Grant(..)
            | Call::Return(..)
            | Call::Settle(..)
            | Call::Release(..)
            | Call::Cancel(..)
            | Call::Renew(..)
            | Call::Adjust(..) => unreachable!("it is decided"),
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
                let within = bounds::instants(listing.since, listing.until);
                let within = spans::record_error(within)?;
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
        let within = bounds::instants(wanted.since, wanted.until);
        let [since, until] = spans::record_error(within)?;
        let since = since.unwrap_or(Timestamp::from_micros(0));
        let until = until.unwrap_or(Timestamp::MAX);
        let used = active.list_usage(page, (since, until), wanted.by).await?;
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
