//! An entity and its ancestors, by its id.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_store::Definition;
use tidegate_store::key::MAX_LEVELS;

use super::error::EntityError;
use super::known::KnownEntity;
use super::path::EntityPath;
use super::record::{Entity, OWNER, check_id};
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

/// An entity that was read before it was asked for.
struct ReadAhead {
    entity: KnownEntity,
    /// How often something was told of its shard before.
    told: u64,
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

    /// The entity `id` and its ancestors: from memory, as far as they are known there. The store is
    /// asked for one that is not, and if its parent is not known either, for all at once that it
    /// was put below; for each that stands elsewhere by now, once more.
    ///
    /// # Errors
    /// [`EntityError::Unknown`], [`EntityError::Orphan`], [`EntityError::Endless`]; a store that
    /// cannot tell.
    pub async fn entity_path(&self, id: &str) -> Result<EntityPath, ServiceError> {
        check_id(Field::Entity, id)?;
        let (mut ids, mut charge_parents) = (Vec::<Arc<str>>::with_capacity(MAX_LEVELS), true);
        let mut next: Option<Arc<str>> = None;
        let mut read_ahead = Vec::<ReadAhead>::new();
        loop {
            let at = next.as_deref().unwrap_or(id);
            if ids.len() == MAX_LEVELS {
                return Err(EntityError::Endless(id.to_owned()).into());
            }
            let known = self.known_entities();
            let known = known.get(at).or_else(|| {
                let read = read_ahead.iter().find(|read| *read.entity.id == *at)?;
                // Nothing was told of it meanwhile.
                (known.told(at) == read.told).then(|| read.entity.clone())
            });
            let known = match known {
                Some(known) => known,
                None => {
                    let Some((known, above)) = self.read_known(at).await? else {
                        return Err(missing(ids.last(), at).into());
                    };
                    if ids.is_empty() {
                        read_ahead = self.read_above(&known, &above).await?;
                    }
                    known
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

    /// As the store has it, and who was above its parent when it was put there.
    async fn read_known(
        &self,
        id: &str,
    ) -> Result<Option<(KnownEntity, Vec<String>)>, ServiceError> {
        let known = self.known_entities();
        let told = known.told(id);
        let there = self.stored_entity(id).await?;
        Ok(there.map(|there| {
            (
                known.keep(id, &there.value, told),
                there.value.parents_ancestors,
            )
        }))
    }

    /// The parent of an entity and those `above` it, as far as they are there and not known: none if the
    /// parent is.
    async fn read_above(
        &self,
        entity: &KnownEntity,
        above: &[String],
    ) -> Result<Vec<ReadAhead>, ServiceError> {
        let known = self.known_entities();
        let Some(parent) = entity.parent.as_deref() else {
            return Ok(Vec::new());
        };
        if above.is_empty() || known.get(parent).is_some() {
            return Ok(Vec::new());
        }
        let unknown = above.iter().map(String::as_str);
        let unknown = unknown.filter(|id| known.get(id).is_none());
        let ids: Vec<&str> = [parent].into_iter().chain(unknown).collect();
        let told: Vec<u64> = ids.iter().map(|id| known.told(id)).collect();
        let keys: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes()).collect();
        let found = self.stored_definitions_at(OWNER, &keys).await?;
        let mut read = Vec::with_capacity(ids.len());
        for ((id, told), there) in ids.into_iter().zip(told).zip(found) {
            if let Some(there) = read_entity(there.as_ref())? {
                let entity = known.keep(id, &there.value, told);
                read.push(ReadAhead { entity, told });
            }
        }
        Ok(read)
    }

    /// The entity as the store has it, whatever this server knows.
    pub(super) async fn stored_entity(&self, id: &str) -> Result<Option<Entity>, ServiceError> {
        let there = self.stored_at(OWNER, id.as_bytes()).await?;
        read_entity(there.as_ref())
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

fn read_entity(there: Option<&Definition>) -> Result<Option<Entity>, ServiceError> {
    let read = there.map(Entity::read).transpose();
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
