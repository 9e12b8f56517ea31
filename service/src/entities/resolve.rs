//! An entity and its ancestors, by its id.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_store::key::MAX_LEVELS;
use tidegate_store::{Definition, StoreFuture};

use super::error::EntityError;
use super::path::EntityPath;
use super::record::{Entity, EntityValue, OWNER, check_id};
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

/// An entity that is being read.
struct Read {
    id: Arc<str>,
    /// How often something was told of its shard before.
    told: u64,
    there: StoreFuture<Option<Definition>>,
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

    /// The entity `id` and its ancestors: from memory, as far as they are known there. Of one that is
    /// not the store is asked, and then at once for all the ancestors that it was put below, as far as
    /// they are not known: for each that stands elsewhere by now, once more.
    ///
    /// # Errors
    /// [`EntityError::Unknown`], [`EntityError::Orphan`], [`EntityError::Endless`]; a store that
    /// cannot tell.
    pub async fn entity_path(&self, id: &str) -> Result<EntityPath, ServiceError> {
        check_id(Field::Entity, id)?;
        let (mut ids, mut charge_parents) = (Vec::<Arc<str>>::with_capacity(MAX_LEVELS), true);
        let mut next: Option<Arc<str>> = None;
        let mut read_ahead = Vec::<Read>::new();
        loop {
            let at = next.as_deref().unwrap_or(id);
            if ids.len() == MAX_LEVELS {
                return Err(EntityError::Endless(id.to_owned()).into());
            }
            let known = match self.known_entities().get(at) {
                Some(known) => known,
                None => {
                    let begun = read_ahead.iter().position(|read| *read.id == *at);
                    let read = begun.map_or_else(|| self.read(at), |at| read_ahead.swap_remove(at));
                    let told = read.told;
                    let Some(there) = read_entity(read.there).await? else {
                        return Err(missing(ids.last(), at).into());
                    };
                    if read_ahead.is_empty() {
                        read_ahead = self.read_above(&there.value);
                    }
                    self.known_entities().keep(at, &there.value, told)
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

    /// Begins to read an entity that is not known.
    fn read(&self, id: &str) -> Read {
        Read {
            id: id.into(),
            told: self.known_entities().told(id),
            there: self.stored_at(OWNER, id.as_bytes()),
        }
    }

    /// Begins to read the ancestors that are not known of an entity of which this was read.
    fn read_above(&self, value: &EntityValue) -> Vec<Read> {
        let ancestors = value.parent.iter().chain(&value.above);
        let unknown = ancestors.filter(|id| self.known_entities().get(id).is_none());
        unknown.map(|id| self.read(id)).collect()
    }

    /// The entity as the store has it, whatever this server knows.
    pub(super) async fn stored_entity(&self, id: &str) -> Result<Option<Entity>, ServiceError> {
        read_entity(self.stored_at(OWNER, id.as_bytes())).await
    }

    /// The entity's path, read from the store and not from this server's cache: for changes.
    /// Requests use `entity_path`.
    pub(super) async fn stored_path(&self, id: &str) -> Result<EntityPath, ServiceError> {
        let there = self.stored_entity(id).await?;
        let there = there.ok_or_else(|| missing(None, id))?;
        let above = self.stored_ancestors(id, there.value.parent.as_deref());
        let above = above.await?;
        let ids = [&there].into_iter().chain(&above);
        let ids = ids.map(|entity| Arc::from(&*entity.id)).collect();
        Ok(EntityPath::upward(ids, there.value.charge_parents))
    }

    /// The ancestors of an entity that belongs to `parent`, as the store has them: the parent
    /// first, the root last.
    pub(super) async fn stored_ancestors(
        &self,
        id: &str,
        parent: Option<&str>,
    ) -> Result<Vec<Entity>, ServiceError> {
        let (mut found, mut next) = (Vec::<Entity>::new(), parent.map(str::to_owned));
        while let Some(at) = next {
            let there = self.stored_entity(&at).await?;
            let below = found.last().map_or(id, |below| &below.id);
            let there = there.ok_or_else(|| EntityError::Orphan {
                id: below.to_owned(),
                parent: at.clone(),
            })?;
            next = there.value.parent.clone();
            found.push(there);
            if found.len() == MAX_LEVELS && next.is_some() {
                return Err(EntityError::Endless(id.to_owned()).into());
            }
        }
        Ok(found)
    }
}

async fn read_entity(
    there: StoreFuture<Option<Definition>>,
) -> Result<Option<Entity>, ServiceError> {
    let there = there.await?;
    let read = there.as_ref().map(Entity::read).transpose();
    Ok(read.map_err(tidegate_store::StoreError::from)?.flatten())
}

fn missing(below: Option<&Arc<str>>, at: &str) -> EntityError {
    match below {
        None => EntityError::Unknown(cut(at).into_owned()),
        Some(below) => EntityError::Orphan {
            id: below.to_string(),
            parent: at.to_owned(),
        },
    }
}
