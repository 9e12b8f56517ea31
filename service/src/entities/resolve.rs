//! An entity and its ancestors, by its id.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_store::Definition;
use tidegate_store::key::MAX_LEVELS;

use super::error::EntityError;
use super::known::{KnownEntity, Told};
use super::path::EntityPath;
use super::record::{Entity, OWNER, PARENT_AT, check_id};
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

/// Entities that were read before they were asked for.
struct ReadAhead {
    entities: Vec<KnownEntity>,
    /// What was told before.
    told: Told,
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

    /// The entity `id` and its ancestors: from memory, as far as they are known there. A store is
    /// asked for one that is not, and answers with its ancestors. One that answers it alone
    /// is asked for all at once that it was put below, if its parent is not known, and for each
    /// that stands elsewhere by now once more.
    ///
    /// # Errors
    /// [`EntityError::Unknown`], [`EntityError::Orphan`], [`EntityError::Endless`]; a store that
    /// cannot tell.
    pub async fn entity_path(&self, id: &str) -> Result<EntityPath, ServiceError> {
        check_id(Field::Entity, id)?;
        let (mut ids, mut charge_parents) = (Vec::<Arc<str>>::with_capacity(MAX_LEVELS), true);
        let mut next: Option<Arc<str>> = None;
        let mut read_ahead = None::<ReadAhead>;
        loop {
            let at = next.as_deref().unwrap_or(id);
            if ids.len() == MAX_LEVELS {
                return Err(EntityError::Endless(id.to_owned()).into());
            }
            let known = self.known_entities();
            let known = known.get(at).or_else(|| {
                let read = read_ahead.as_ref()?;
                let found = read.entities.iter().find(|read| *read.id == *at)?;
                (!known.was_told(at, &read.told)).then(|| found.clone())
            });
            let known = match known {
                Some(known) => known,
                None => {
                    let (read, above) = self.read_known(at).await?;
                    let Some(known) = read.entities.first().cloned() else {
                        return Err(missing(ids.last(), at).into());
                    };
                    match read.entities.len() {
                        1 if ids.is_empty() => read_ahead = self.read_above(&known, &above).await?,
                        1 => {}
                        _ => read_ahead = Some(read),
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

    /// The entity as the store has it, if it is there, with the ancestors that the store read with
    /// it; and who was above its parent when it was put there.
    async fn read_known(&self, id: &str) -> Result<(ReadAhead, Vec<String>), ServiceError> {
        let told = self.known_entities().told();
        let found = self.stored_with_ancestors(OWNER, id.as_bytes(), PARENT_AT);
        self.keep(found.await?.iter().map(Some), told)
    }

    /// What was read, as far as it is there; and who was above the first one's parent when it was put
    /// there.
    fn keep<'d>(
        &self,
        found: impl Iterator<Item = Option<&'d Definition>>,
        told: Told,
    ) -> Result<(ReadAhead, Vec<String>), ServiceError> {
        let known = self.known_entities();
        let (mut entities, mut above) = (Vec::new(), None);
        for one in found {
            if let Some(there) = read_entity(one)? {
                entities.push(known.keep(&there.id, &there.value, &told));
                above.get_or_insert(there.value.parents_ancestors);
            }
        }
        Ok((ReadAhead { entities, told }, above.unwrap_or_default()))
    }

    /// The parent of an entity and those `above` it, as far as they are there and not known: none if the
    /// parent is.
    async fn read_above(
        &self,
        entity: &KnownEntity,
        above: &[String],
    ) -> Result<Option<ReadAhead>, ServiceError> {
        let known = self.known_entities();
        let Some(parent) = entity.parent.as_deref() else {
            return Ok(None);
        };
        if above.is_empty() || known.get(parent).is_some() {
            return Ok(None);
        }
        let unknown = above.iter().map(String::as_str);
        let unknown = unknown.filter(|id| known.get(id).is_none());
        let ids = [parent].into_iter().chain(unknown);
        let (keys, told): (Vec<&[u8]>, _) = (ids.map(str::as_bytes).collect(), known.told());
        let found = self.stored_definitions_at(OWNER, &keys).await?;
        let (read, _) = self.keep(found.iter().map(Option::as_ref), told)?;
        Ok(Some(read))
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
