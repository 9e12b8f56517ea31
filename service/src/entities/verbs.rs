//! Entities at the service: who may create, change, move, delete and see them.

use std::collections::BTreeMap;

use tidegate_store::{Page, StoreError};

use super::error::EntityError;
use super::record::{Entity, EntityValue, OWNER, check_id};
use super::write::{By, MOST_TRIES, Place, changed, check_ancestors, named, outrun, undone};
use crate::access::Caller;
use crate::audit::Action;
use crate::bounds;
use crate::error::{ServiceError, cut};
use crate::field::Field;
use crate::overrides::OnlyIf;
use crate::service::Service;
use tidegate::{LONGEST_PAGE, PageOf, Select};
use tidegate_policy::Scope;

/// An entity to be.
#[derive(Clone, Debug)]
pub struct NewEntity<'a> {
    /// Its id: 1 to 256 bytes.
    pub id: &'a str,
    /// To whom it is to belong; a root if to nobody.
    pub parent: Option<&'a str>,
    /// What people call it: at most 256 bytes.
    pub name: &'a str,
    /// Words of its owner's: at most 16 entries, 1,024 bytes in all.
    pub metadata: BTreeMap<String, String>,
    /// Whether its ancestors' limits count, too: they can refuse, and they are charged.
    pub charge_parents: bool,
}

/// What an entity is to become; what is left out stays as it is.
#[derive(Clone, Debug, Default)]
pub struct EntityChange<'a> {
    /// To whom it is to belong.
    pub parent: Option<&'a str>,
    /// What people call it; empty: nothing any more.
    pub name: Option<&'a str>,
    /// All of its metadata.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Whether its ancestors' limits count, too: they can refuse, and they are charged.
    pub charge_parents: Option<bool>,
}

/// On which terms an entity is changed or deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntityTerms<'a> {
    /// What has to be there; else nothing is changed.
    pub only_if: Option<OnlyIf>,
    /// Why: at most [`LONGEST_REASON`](bounds::LONGEST_REASON) bytes.
    pub reason: Option<&'a str>,
}

impl EntityTerms<'_> {
    fn hold(&self, entity: &Entity, removes: bool) -> Result<(), ServiceError> {
        match self.only_if {
            Some(only_if) if !only_if.holds(entity.version) => Err(ServiceError::Conflict {
                what: named(&entity.id),
                version: Some(entity.version),
                removes,
            }),
            _ => Ok(()),
        }
    }
}

impl EntityChange<'_> {
    const fn is_empty(&self) -> bool {
        self.parent.is_none()
            && self.name.is_none()
            && self.metadata.is_none()
            && self.charge_parents.is_none()
    }

    fn of(&self, mut value: EntityValue) -> EntityValue {
        if let Some(parent) = self.parent {
            value.parent = Some(parent.to_owned());
        }
        if let Some(name) = self.name {
            name.clone_into(&mut value.name);
        }
        if let Some(metadata) = &self.metadata {
            value.metadata.clone_from(metadata);
        }
        if let Some(charge_parents) = self.charge_parents {
            value.charge_parents = charge_parents;
        }
        value
    }
}

impl Service {
    /// Has the store keep a new entity, for every server of the store. Requests may name it by
    /// its id from then on. An audit event is kept in the same step.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`]: it takes the scope to administer all policies;
    /// what is out of its bounds; [`EntityError::Exists`], [`EntityError::Unknown`] (the parent),
    /// [`EntityError::Cycle`], [`EntityError::TooDeep`]; a store that cannot keep it.
    pub async fn create_entity(
        &self,
        caller: &Caller,
        new: &NewEntity<'_>,
        reason: Option<&str>,
    ) -> Result<Entity, ServiceError> {
        caller.check(Scope::Administer, None)?;
        check_id(Field::Id, new.id)?;
        bounds::reason(reason)?;
        let (id, by) = (new.id, By { caller, reason });
        let mut value = EntityValue {
            parent: new.parent.map(str::to_owned),
            name: new.name.to_owned(),
            metadata: new.metadata.clone(),
            charge_parents: new.charge_parents,
            by: None,
            created_at: None,
            changed_at: None,
            parents_ancestors: Vec::new(),
        };
        value.check()?;
        if let Some(there) = self.stored_entity(id).await? {
            return Err(exists(there));
        }
        let mut seen = None;
        if let Some(parent) = new.parent {
            let ancestors = self.ancestors_of(id, parent, None).await?;
            seen = ancestors.first().map(|parent| parent.version);
            value.parents_ancestors = ids_above_first(&ancestors);
            self.note_child(parent, id).await?;
        }
        let value = changed(value, by, self.clock().now());
        let put = self.put_entity(by, (Action::CreateEntity, id), None, Some(&value));
        let entity = match put.await? {
            Ok(version) => Entity {
                id: id.to_owned(),
                version,
                value,
            },
            Err(Some(there)) => return Err(exists(there)),
            Err(None) => return Err(outrun(id)),
        };
        if let (Some(parent), Some(seen)) = (new.parent, seen)
            && let Err(error) = self.confirm_below(id, (parent, seen), None).await
        {
            let why = undone(&error);
            let reason = Some(why.as_str());
            let undo = By { caller, reason };
            self.put_entity(undo, (Action::DeleteEntity, id), Some(&entity), None)
                .await?
                .ok();
            return Err(unknown_parent(error));
        }
        Ok(entity)
    }

    /// Changes what is said of an entity, on these terms; below another parent it keeps what it
    /// has used. An audit event is kept in the same step.
    ///
    /// # Errors
    /// As [`create_entity`](Self::create_entity); [`EntityError::Unknown`];
    /// [`ServiceError::Conflict`] if it is at another version than has to be; for another parent
    /// [`EntityError::OtherRoot`], [`EntityError::OtherLevel`], [`EntityError::HasLeases`].
    /// Then nothing changes.
    pub async fn change_entity(
        &self,
        caller: &Caller,
        id: &str,
        change: &EntityChange<'_>,
        terms: &EntityTerms<'_>,
    ) -> Result<Entity, ServiceError> {
        caller.check(Scope::Administer, None)?;
        check_id(Field::Id, id)?;
        bounds::reason(terms.reason)?;
        if change.is_empty() {
            return Err(EntityError::NoChange.into());
        }
        let by = By {
            caller,
            reason: terms.reason,
        };
        for _ in 0..MOST_TRIES {
            let there = self.entity_or_unknown(id).await?;
            terms.hold(&there, false)?;
            let mut value = change.of(there.value.clone());
            value.check()?;
            let old_parent = there.value.parent.as_deref();
            let parent = change.parent.filter(|parent| old_parent != Some(parent));
            let (mut shift, mut noted) = (None, 0);
            if let Some(parent) = parent {
                let ancestors = self.stored_ancestors(id, old_parent).await?;
                let place = Place::of(id, &ancestors);
                let new = self.ancestors_of(id, parent, Some(&place)).await?;
                let seen = new.first().map_or(0, |parent| parent.version);
                value.parents_ancestors = ids_above_first(&new);
                self.check_unleased(id, Leases::AndBelow).await?;
                self.note_child(parent, id).await?;
                noted = self.noted(old_parent, id).await?;
                shift = Some(((parent, seen), place));
            }
            let value = changed(value, by, self.clock().now());
            let what = (Action::ChangeEntity, id);
            let put = self.put_entity(by, what, Some(&there), Some(&value));
            let Ok(version) = put.await? else { continue };
            let entity = Entity {
                id: id.to_owned(),
                version,
                value,
            };
            if let Some((below, place)) = shift
                && let Err(error) = self.confirm_below(id, below, Some(&place)).await
            {
                let why = undone(&error);
                let reason = Some(why.as_str());
                let undo = By { caller, reason };
                let back = changed(there.value, undo, self.clock().now());
                self.put_entity(undo, what, Some(&entity), Some(&back))
                    .await?
                    .ok();
                return Err(unknown_parent(error));
            }
            self.unnote(old_parent, id, noted).await;
            return Ok(entity);
        }
        Err(outrun(id))
    }

    /// Deletes an entity, on these terms. An audit event is kept in the same step.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`]; [`EntityError::Unknown`]; [`ServiceError::Conflict`];
    /// [`EntityError::HasChildren`], [`EntityError::HasLeases`]; a store that cannot tell.
    pub async fn delete_entity(
        &self,
        caller: &Caller,
        id: &str,
        terms: &EntityTerms<'_>,
    ) -> Result<(), ServiceError> {
        caller.check(Scope::Administer, None)?;
        check_id(Field::Id, id)?;
        bounds::reason(terms.reason)?;
        let by = By {
            caller,
            reason: terms.reason,
        };
        let mut own = None;
        for _ in 0..MOST_TRIES {
            let mut there = self.entity_or_unknown(id).await?;
            if own.is_none_or(|own| own != there.version) {
                terms.hold(&there, true)?;
            }
            self.check_childless(id).await?;
            self.check_unleased(id, Leases::OfIt).await?;
            let parent = there.value.parent.clone();
            let noted = self.noted(parent.as_deref(), id).await?;
            // Whoever puts a child below it from here on is seen, or sees another version.
            let Some(version) = self.touch(&there).await? else {
                continue;
            };
            there.version = version;
            own = Some(version);
            self.check_childless(id).await?;
            let put = self.put_entity(by, (Action::DeleteEntity, id), Some(&there), None);
            if put.await?.is_ok() {
                self.unnote(parent.as_deref(), id, noted).await;
                return Ok(());
            }
        }
        Err(outrun(id))
    }

    /// The entity `id`, and the ids of its ancestors, the root's first.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`]: it takes the scope to observe all policies;
    /// [`EntityError::Unknown`]; ancestors that are not there; a store that cannot tell.
    pub async fn entity(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<(Entity, Vec<String>), ServiceError> {
        caller.check(Scope::Observe, None)?;
        check_id(Field::Id, id)?;
        let entity = self.entity_or_unknown(id).await?;
        let parent = entity.value.parent.as_deref();
        let ancestors = self.stored_ancestors(id, parent).await?;
        let ids = ancestors.into_iter().rev().map(|ancestor| ancestor.id);
        let ids = ids.collect();
        Ok((entity, ids))
    }

    /// A page of all entities, in the order of their ids' bytes, or of the children of one.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`]; of children, [`EntityError::Unknown`]; what is out of its
    /// bounds; a store that cannot tell.
    pub async fn entities(
        &self,
        caller: &Caller,
        of: Option<&str>,
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Page<Entity>, ServiceError> {
        caller.check(Scope::Observe, None)?;
        if let Some(parent) = of {
            check_id(Field::Id, parent)?;
            let page = self.stored_children(parent, after, most).await?;
            if page.items.is_empty() && page.next.is_none() {
                self.entity_or_unknown(parent).await?;
            }
            return Ok(page);
        }
        let page = self.stored_page(OWNER, &[], after, most).await?;
        let read = page.items.iter().map(Entity::read);
        let read: Result<Vec<_>, _> = read.collect();
        Ok(Page {
            items: read
                .map_err(StoreError::from)?
                .into_iter()
                .flatten()
                .collect(),
            next: page.next,
        })
    }

    async fn entity_or_unknown(&self, id: &str) -> Result<Entity, ServiceError> {
        let there = self.stored_entity(id).await?;
        there.ok_or_else(|| EntityError::Unknown(cut(id).into_owned()).into())
    }

    /// The ancestors that an entity would have below `parent`.
    async fn ancestors_of(
        &self,
        id: &str,
        parent: &str,
        place: Option<&Place>,
    ) -> Result<Vec<Entity>, ServiceError> {
        check_id(Field::Parent, parent)?;
        if id == parent {
            check_ancestors(id, parent, &[], None)?;
        }
        let ancestors = self.stored_ancestors(id, Some(parent)).await;
        let ancestors = ancestors.map_err(|error| match error {
            ServiceError::Entity(EntityError::Orphan { id: of, parent }) if of == id => {
                EntityError::Unknown(cut(&parent).into_owned()).into()
            }
            error => error,
        })?;
        check_ancestors(id, parent, &ancestors, place)?;
        Ok(ancestors)
    }

    async fn check_childless(&self, id: &str) -> Result<(), ServiceError> {
        match self.child_of(id).await? {
            None => Ok(()),
            Some(child) => Err(EntityError::HasChildren {
                id: id.to_owned(),
                child: child.id,
            }
            .into()),
        }
    }

    async fn check_unleased(&self, id: &str, whose: Leases) -> Result<(), ServiceError> {
        let path = match self.stored_path(id).await {
            Ok(path) => path,
            // What has no path holds nothing by it.
            Err(ServiceError::Entity(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let beginning = path.beginning();
        let select = match whose {
            Leases::OfIt => Select::Key(path.key()),
            Leases::AndBelow => Select::Prefix(&beginning),
        };
        for active in self.all_active() {
            if path.check_reach(&active).is_err() {
                continue;
            }
            let mut after: Option<Vec<u8>> = None;
            loop {
                let page = PageOf {
                    select,
                    after: after.as_deref(),
                    most: LONGEST_PAGE,
                };
                let page = active.list_leases(page).await?;
                if page.items.iter().any(|lease| path.is_in(&lease.key)) {
                    return Err(EntityError::HasLeases {
                        id: id.to_owned(),
                        policy: active.policy().name.clone(),
                    }
                    .into());
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The ids of all but the first of these, which is a parent: its ancestors.
fn ids_above_first(ancestors: &[Entity]) -> Vec<String> {
    let above = ancestors.iter().skip(1);
    above.map(|ancestor| ancestor.id.clone()).collect()
}

/// Whose leases speak against a change.
#[derive(Clone, Copy)]
enum Leases {
    /// The entity's own.
    OfIt,
    /// Those of all that belong to it, too.
    AndBelow,
}

fn exists(there: Entity) -> ServiceError {
    EntityError::Exists {
        id: there.id,
        version: there.version,
    }
    .into()
}

/// A parent that went away meanwhile is as one that never was there.
fn unknown_parent(error: ServiceError) -> ServiceError {
    match error {
        ServiceError::Entity(EntityError::Orphan { parent, .. }) => {
            EntityError::Unknown(cut(&parent).into_owned()).into()
        }
        error => error,
    }
}
