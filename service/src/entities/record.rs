//! What is kept of an entity.
//!
//! ```text
//! version u8, parent?, by?, created_at?, changed_at?, charge_parents u8, name,
//! n u32, 2n x text of metadata, of version 2: n u32, n x text of the parent's ancestors
//! ```
//!
//! Version 1 is still written where there are no such ancestors, so that older servers read it.

use std::collections::BTreeMap;

use tidegate_core::{DecodeError, Timestamp};
use tidegate_policy::{MOST_METADATA, wrong_entity_id, wrong_metadata, wrong_name};
use tidegate_store::Definition;
use tidegate_store::key::MAX_LEVELS;

use crate::bounds;
use crate::bytes::{Reader, Writer};
use crate::error::ServiceError;
use crate::field::Field;

const VERSION: u8 = 2;

/// From which version on it has those; one without any is written as the version before.
const WITH_ANCESTORS: u8 = 2;

/// Where an entity's value has its [parent's key](Definition::parent_key), in every version.
pub(super) const PARENT_OFFSET: u8 = 1;

/// As whom the store knows entities, and the events of their changes.
pub(crate) const OWNER: &str = "entities";

/// How an event's subject begins that is an entity: no override's place does.
const SUBJECT: u8 = 2;

/// What is said of an entity.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct EntityValue {
    /// To whom it belongs; a root has none.
    pub parent: Option<String>,
    /// What people call it; empty if nothing was said.
    pub name: String,
    /// Words of its owner's.
    pub metadata: BTreeMap<String, String>,
    /// Whether its ancestors' limits count, too: they can refuse, and they are charged.
    pub charge_parents: bool,
    /// The name of the token that changed it last.
    pub by: Option<String>,
    /// When it was created, by the clock of the server that was asked.
    pub created_at: Option<Timestamp>,
    /// When it was changed last.
    pub changed_at: Option<Timestamp>,
    /// The ancestors of its parent when it was put there, the nearest first: what is likely to be
    /// asked for next. Any of them may have moved since.
    pub(super) parents_ancestors: Vec<String>,
}

/// An entity that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Entity {
    /// Its id.
    pub id: String,
    /// Of its last change: no two of its changes have the same, and it is never 0.
    pub version: u64,
    /// What is said of it.
    pub value: EntityValue,
}

impl EntityValue {
    /// As a store keeps it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(match self.parents_ancestors.is_empty() {
            true => WITH_ANCESTORS - 1,
            false => VERSION,
        });
        out.some_text(self.parent.as_deref());
        out.some_text(self.by.as_deref());
        out.some_instant(self.created_at);
        out.some_instant(self.changed_at);
        out.0.push(u8::from(self.charge_parents));
        out.bytes(self.name.as_bytes());
        out.0.extend((2 * self.metadata.len() as u32).to_le_bytes());
        for (word, says) in &self.metadata {
            out.bytes(word.as_bytes());
            out.bytes(says.as_bytes());
        }
        if !self.parents_ancestors.is_empty() {
            out.0
                .extend((self.parents_ancestors.len() as u32).to_le_bytes());
            self.parents_ancestors
                .iter()
                .for_each(|id| out.bytes(id.as_bytes()));
        }
        out.0
    }

    /// What a store has kept.
    ///
    /// # Errors
    /// What no version wrote, or only a newer one.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let (parent, by) = (reader.some_text()?, reader.some_text()?);
        let (created_at, changed_at) = (reader.some_instant()?, reader.some_instant()?);
        let charge_parents = reader.byte()? != 0;
        let name = reader.text()?;
        let words = reader.many(2 * MOST_METADATA)?;
        let parents_ancestors = match bytes.first() {
            Some(&version) if version >= WITH_ANCESTORS => reader.many(MAX_LEVELS)?,
            _ => Vec::new(),
        };
        reader.end()?;
        let (pairs, rest) = words.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(DecodeError::Corrupt("metadata"));
        }
        let pairs = pairs.iter().cloned().map(|[word, says]| (word, says));
        Ok(Self {
            parent,
            name,
            metadata: pairs.collect(),
            charge_parents,
            by,
            created_at,
            changed_at,
            parents_ancestors,
        })
    }

    /// That its name and its metadata are within their bounds.
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        bounds::fits(Field::Name, wrong_name(&self.name))?;
        bounds::fits(Field::Metadata, wrong_metadata(&self.metadata))
    }
}

impl Entity {
    /// What a store has kept under an id; nothing if that is nothing.
    ///
    /// # Errors
    /// As [`EntityValue::decode`].
    pub(super) fn read(definition: &Definition) -> Result<Option<Self>, DecodeError> {
        let Some(value) = definition.value.as_deref() else {
            return Ok(None);
        };
        let id =
            str::from_utf8(&definition.key).map_err(|_| DecodeError::Corrupt("entity's id"))?;
        Ok(Some(Self {
            id: id.to_owned(),
            version: definition.version,
            value: EntityValue::decode(value)?,
        }))
    }
}

/// That it can be an entity's id.
///
/// # Errors
/// [`ServiceError::Form`]: 1 to 256 bytes.
pub(crate) fn check_id(field: Field, id: &str) -> Result<(), ServiceError> {
    bounds::fits(field, wrong_entity_id(id))
}

/// How events call an entity.
pub(crate) fn subject_of(id: &str) -> Vec<u8> {
    [&[SUBJECT], id.as_bytes()].concat()
}

/// The entity that an event's subject names; none if that is something else.
pub(crate) fn entity_of_subject(subject: &[u8]) -> Option<&str> {
    let (&sort, id) = subject.split_first()?;
    str::from_utf8(id).ok().filter(|_| sort == SUBJECT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_kept_is_read_as_it_was_written(
            parent in proptest::option::of(".{1,9}"),
            by in proptest::option::of(".{0,9}"),
            instants in any::<[Option<i64>; 2]>(),
            charge_parents in any::<bool>(),
            name in ".{0,9}",
            metadata in proptest::collection::btree_map(".{0,5}", ".{0,5}", 0..MOST_METADATA),
            parents_ancestors in proptest::collection::vec(".{0,5}", 0..MAX_LEVELS),
        ) {
            let [created_at, changed_at] = instants.map(|at| at.map(Timestamp::from_micros));
            let value = EntityValue {
                parent, name, metadata, charge_parents, by, created_at, changed_at,
                parents_ancestors,
            };
            let bytes = value.encode();
            for end in 0..bytes.len() {
                prop_assert!(EntityValue::decode(&bytes[..end]).is_err());
            }
            let kept = Definition::new("id", &*bytes);
            prop_assert_eq!(kept.parent_key(PARENT_OFFSET), value.parent.as_deref().map(str::as_bytes));
            prop_assert_eq!(EntityValue::decode(&bytes), Ok(value));
        }

        #[test]
        fn bytes_that_nobody_wrote_are_an_error(bytes in any::<Vec<u8>>()) {
            drop(EntityValue::decode(&bytes));
        }
    }

    #[test]
    fn what_a_newer_server_has_kept_is_told_apart() {
        let newer = EntityValue::decode(&[VERSION + 1]).unwrap_err();
        assert!(matches!(
            newer,
            DecodeError::Newer {
                version: 3,
                reads: 2
            }
        ));
    }
}
