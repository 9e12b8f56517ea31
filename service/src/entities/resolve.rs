//! An entity and its ancestors, by its id.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_store::Definition;
use tidegate_store::key::MAX_LEVELS;

use super::error::EntityError;
use super::known::{Epochs, Known, KnownEntity};
use super::path::EntityPath;
use super::record::{Entity, OWNER, PARENT_OFFSET, check_id};
use crate::error::{ServiceError, cut};
use crate::field::Field;
use crate::service::Service;
use crate::whose::Whose;

/// Whose limits a request is about, found.
pub(crate) struct Found<'a> {
    /// The key of the limits.
    pub(crate) key: Cow<'a, [u8]>,
    /// Of an entity: it and its ancestors.
    pub(crate) path: Option<Arc<EntityPath>>,
}

/// Entities as the store has them.
struct Fetched {
    entities: Vec<KnownEntity>,
    /// Those of the cache before.
    epochs: Epochs,
}

impl Fetched {
    /// One of them, unless it may have changed since.
    fn get(&self, id: &str, cache: &Known) -> Option<&KnownEntity> {
        let found = self.entities.iter().find(|entity| *entity.id == *id);
        found.filter(|_| !cache.is_stale(id, &self.epochs))
    }
}

impl Service {
    /// The key that is meant.
    ///
    /// # Errors
    /// Of an entity, as [`entity_path`](Self::entity_path).
    #[inline]
    pub(crate) async fn found<'a>(&self, whose: Whose<'a>) -> Result<Found<'a>, ServiceError> {
        match whose {
            Whose::Key(key) => Ok(Found {
                key: key.into(),
                path: None,
            }),
            Whose::Entity(id) => {
                let path = Box::pin(self.entity_path(id)).await?;
                Ok(Found {
                    key: path.key().to_vec().into(),
                    path: Some(Arc::new(path)),
                })
            }
        }
    }

    /// The entity `id` and its ancestors. Known ones come from the cache; of an unknown one the store is
    /// asked, and returns its ancestors, too. If it returns the entity alone and the parent is
    /// unknown, the ancestors that its value has are read together; one that has moved since is
    /// read by itself.
    ///
    /// # Errors
    /// [`EntityError::Unknown`], [`EntityError::Orphan`], [`EntityError::Endless`]; a store that
    /// cannot tell.
    pub async fn entity_path(&self, id: &str) -> Result<EntityPath, ServiceError> {
        check_id(Field::Entity, id)?;
        let (mut ids, mut charge_parents) = (Vec::<Arc<str>>::with_capacity(MAX_LEVELS), true);
        let mut next: Option<Arc<str>> = None;
        let mut fetched = None::<Fetched>;
        loop {
            let at = next.as_deref().unwrap_or(id);
            if ids.len() == MAX_LEVELS {
                return Err(EntityError::Endless(id.to_owned()).into());
            }
            let cache = self.known_entities();
            let of_fetched = || fetched.as_ref()?.get(at, cache).cloned();
            let known = match cache.get(at).or_else(of_fetched) {
                Some(known) => known,
                None => {
                    let new = fetched.insert(self.fetch(at).await?);
                    let found = new.entities.first().cloned();
                    found.ok_or_else(|| missing(ids.last().map(|id| &**id), at))?
                }
            };
            if ids.is_empty() {
                charge_parents = known.charge_parents;
            }
            ids.push(known.id);
            match known.parent {
                Some(parent) => next = Some(parent),
                None => return Ok(EntityPath::upward(ids, charge_parents)),
            }
        }
    }

    /// What the store has of the entity, and of its ancestors unless its parent is known.
    async fn fetch(&self, id: &str) -> Result<Fetched, ServiceError> {
        let cache = self.known_entities();
        let epochs = cache.epochs();
        let found = self.stored_with_ancestors(OWNER, id.as_bytes(), PARENT_OFFSET);
        let mut found = read_entities(found.await?.iter())?;
        if let [entity] = &found[..]
            && let (Some(parent), above) = (&entity.value.parent, &entity.value.parents_ancestors)
            && !above.is_empty()
            && cache.get(parent).is_none()
        {
            let unknown = above.iter().filter(|id| cache.get(id).is_none());
            let keys: Vec<&[u8]> = [parent]
                .into_iter()
                .chain(unknown)
                .map(|id| id.as_bytes())
                .collect();
            let ancestors = self.stored_definitions_at(OWNER, &keys).await?;
            found.extend(read_entities(ancestors.iter().flatten())?);
        }
        let keep = |there: &Entity| cache.keep(&there.id, &there.value, &epochs);
        let entities = found.iter().map(keep).collect();
        Ok(Fetched { entities, epochs })
    }

    /// The entity as the store has it, whatever this server knows.
    pub(super) async fn stored_entity(&self, id: &str) -> Result<Option<Entity>, ServiceError> {
        let there = self.stored_at(OWNER, id.as_bytes()).await?;
        read_entity(there.as_ref())
    }

    /// The entity's path, read from the store and not from this server's cache: for changes.
    /// Requests use `entity_path`.
    pub(super) async fn stored_path(&self, id: &str) -> Result<EntityPath, ServiceError> {
        let all = self.stored_chain(None, id).await?;
        let charge_parents = all
            .first()
            .is_some_and(|entity| entity.value.charge_parents);
        let ids = all.iter().map(|entity| Arc::from(&*entity.id)).collect();
        Ok(EntityPath::upward(ids, charge_parents))
    }

    /// The ancestors of an entity that belongs to `parent`, as the store has them: the parent
    /// first, the root last.
    pub(super) async fn stored_ancestors(
        &self,
        id: &str,
        parent: Option<&str>,
    ) -> Result<Vec<Entity>, ServiceError> {
        match parent {
            Some(parent) => self.stored_chain(Some(id), parent).await,
            None => Ok(Vec::new()),
        }
    }

    /// An entity, to which `below` belongs, and its ancestors.
    async fn stored_chain(
        &self,
        below: Option<&str>,
        id: &str,
    ) -> Result<Vec<Entity>, ServiceError> {
        let (mut found, mut next) = (Vec::<Entity>::new(), Some(id.to_owned()));
        while let Some(at) = next {
            let read = self.stored_with_ancestors(OWNER, at.as_bytes(), PARENT_OFFSET);
            let read = read_entities(read.await?.iter())?;
            let Some(last) = read.last() else {
                let below = found.last().map(|below| &*below.id).or(below);
                return Err(missing(below, &at).into());
            };
            next = last.value.parent.clone();
            found.extend(read);
            if found.len() >= MAX_LEVELS && next.is_some() {
                return Err(EntityError::Endless(below.unwrap_or(id).to_owned()).into());
            }
        }
        Ok(found)
    }
}

fn read_entities<'d>(
    found: impl Iterator<Item = &'d Definition>,
) -> Result<Vec<Entity>, ServiceError> {
    let read = found.filter_map(|one| read_entity(Some(one)).transpose());
    read.collect()
}

fn read_entity(there: Option<&Definition>) -> Result<Option<Entity>, ServiceError> {
    let read = there.map(Entity::read).transpose();
    Ok(read.map_err(tidegate_store::StoreError::from)?.flatten())
}

fn missing(below: Option<&str>, at: &str) -> EntityError {
    match below {
        None => EntityError::Unknown(cut(at).into_owned()),
        Some(below) => EntityError::Orphan {
            id: below.to_string(),
            parent: at.to_owned(),
        },
    }
}
