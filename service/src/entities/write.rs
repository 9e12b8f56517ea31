//! One change of an entity: on the version that was read, with its event in the same step.

use std::fmt;

use tidegate_core::Timestamp;
use tidegate_store::key::MAX_LEVELS;
use tidegate_store::{Change, Defined, Definition};

use super::error::EntityError;
use super::record::{Entity, EntityValue, OWNER, subject_of};
use crate::access::Caller;
use crate::audit::{self, Action, EventDraft};
use crate::error::ServiceError;
use crate::service::Service;

/// So often a change is tried on what somebody else has just left there.
pub(super) const MOST_TRIES: usize = 64;

/// Who changes something, and why.
#[derive(Clone, Copy)]
pub(super) struct By<'a> {
    pub(super) caller: &'a Caller,
    pub(super) reason: Option<&'a str>,
}

impl Service {
    /// Has the store keep `value` of the entity `id`, or nothing, in place of `before`; the
    /// version, or what is there instead.
    pub(super) async fn put_entity(
        &self,
        by: By<'_>,
        (action, id): (Action, &str),
        before: Option<&Entity>,
        value: Option<&EntityValue>,
    ) -> Result<Result<u64, Option<Entity>>, ServiceError> {
        let old = before.map(|before| before.value.encode());
        let new = value.map(EntityValue::encode);
        let draft = EventDraft {
            reason: by.reason,
            before: old.as_deref(),
            after: new.as_deref(),
            ..EventDraft::of(action)
        };
        let event = self.event(by.caller, subject_of(id), &draft);
        let definition = match new {
            Some(new) => Definition::new(id, new),
            None => Definition::none(id),
        };
        let expected = before.map_or(0, |before| before.version);
        let change = Change::from(definition).expecting(expected).telling(event);
        let answer = self.tell(OWNER, change.clone()).await;
        match self.made(OWNER, answer, &change).await? {
            Defined::Done { version, .. } => {
                audit::note(by.caller.namespace(), by.caller.name(), action.name(), id);
                Ok(Ok(version))
            }
            Defined::Conflict(there) => {
                let there = there.as_ref().map(Entity::read).transpose();
                let there = there.map_err(tidegate_store::StoreError::from)?;
                Ok(Err(there.flatten()))
            }
        }
    }

    /// Gives an entity another version, so that whoever is about to change it on this one has to
    /// look again; the new version, or nothing if it has another one already.
    pub(super) async fn touch(&self, entity: &Entity) -> Result<Option<u64>, ServiceError> {
        let same = Definition::new(entity.id.as_str(), entity.value.encode());
        let change = Change::from(same).expecting(entity.version);
        match self.tell(OWNER, change).await? {
            Defined::Done { version, .. } => Ok(Some(version)),
            Defined::Conflict(_) => Ok(None),
        }
    }

    /// Looks once more at where the entity `id` has just been put: that `parent`, which was at
    /// version `seen`, is still there, and at the same place. Whoever deletes it meanwhile either sees
    /// the child or is told of another version.
    ///
    /// # Errors
    /// What the entity may not stay for; a store that cannot tell.
    pub(super) async fn confirm_below(
        &self,
        id: &str,
        (parent, seen): (&str, u64),
        place: Option<&Place>,
    ) -> Result<(), ServiceError> {
        for _ in 0..MOST_TRIES {
            let ancestors = self.stored_ancestors(id, Some(parent)).await?;
            check_ancestors(id, parent, &ancestors, place)?;
            let Some(now) = ancestors.first() else {
                return Ok(());
            };
            if now.version == seen || self.touch(now).await?.is_some() {
                return Ok(());
            }
        }
        Err(outrun(parent))
    }
}

/// An entity, as errors call it.
pub(super) fn named(id: &str) -> String {
    format!("the entity `{id}`")
}

/// Others have changed the entity `id` each time that it was looked at.
pub(super) fn outrun(id: &str) -> ServiceError {
    ServiceError::Outrun { what: named(id) }
}

/// Where an entity's limits are kept, whomever else it stands below.
pub(super) struct Place {
    root: String,
    level: usize,
}

impl Place {
    /// That of an entity with these ancestors, the root last.
    pub(super) fn of(id: &str, ancestors: &[Entity]) -> Self {
        Self {
            root: ancestors.last().map_or(id, |root| &root.id).to_owned(),
            level: ancestors.len() + 1,
        }
    }
}

/// That an entity can stand below these: it is none of them, and at no ninth level; one that
/// moves, at the same `place`.
pub(super) fn check_ancestors(
    id: &str,
    parent: &str,
    ancestors: &[Entity],
    place: Option<&Place>,
) -> Result<(), EntityError> {
    let new = Place::of(id, ancestors);
    let (id, parent) = (id.to_owned(), parent.to_owned());
    if id == parent || ancestors.iter().any(|ancestor| ancestor.id == id) {
        return Err(EntityError::Cycle { id, parent });
    }
    if new.level > MAX_LEVELS {
        let level = new.level;
        return Err(EntityError::TooDeep { id, parent, level });
    }
    match place {
        Some(old) if old.root != new.root => Err(EntityError::OtherRoot {
            id,
            parent,
            root: old.root.clone(),
        }),
        Some(old) if old.level != new.level => Err(EntityError::OtherLevel {
            id,
            parent,
            old: old.level,
            new: new.level,
        }),
        _ => Ok(()),
    }
}

/// Why something is taken back, for its event.
pub(super) fn undone(why: &dyn fmt::Display) -> String {
    let mut text = format!("taken back: {why}");
    text.truncate(text.floor_char_boundary(crate::bounds::LONGEST_REASON));
    text
}

/// The same, changed now by `by`.
pub(super) fn changed(value: EntityValue, by: By<'_>, now: Timestamp) -> EntityValue {
    EntityValue {
        by: Some(by.caller.name().to_owned()),
        created_at: value.created_at.or(Some(now)),
        changed_at: Some(now),
        ..value
    }
}
