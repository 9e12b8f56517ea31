//! What an override is for.

use std::fmt;

use crate::error::ServiceError;
use crate::field::Field;
use tidegate::{BuildError, Key};

/// How much an override is about, the most specific first: of those that say
/// something of a limit, the first holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// One key in one policy.
    EntityAndResource,
    /// One key in every policy.
    Entity,
    /// One policy.
    Resource,
    /// Every policy.
    System,
}

/// What an override is for: a key (or an ancestor of keys) or every one, in one
/// policy or in every one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub struct OverrideTarget {
    /// The policy; `None`: every policy.
    pub resource: Option<String>,
    /// The key; `None`: every key.
    pub entity: Option<Vec<u8>>,
}

impl OverrideTarget {
    /// The place that a request names; what is left out means every one.
    ///
    /// # Errors
    /// What is named and empty, or can be no key.
    pub fn read(policy: Option<&str>, key: Option<&[u8]>) -> Result<Self, ServiceError> {
        let mut target = Self::system();
        if let Some(policy) = policy {
            if policy.is_empty() {
                return Err(ServiceError::Form {
                    field: Field::Policy,
                    wrong: "it is empty; leave it out to mean every policy",
                });
            }
            target = target.of_resource(policy);
        }
        if let Some(key) = key {
            Key::from(key).check().map_err(BuildError::from)?;
            target = target.of_entity(key);
        }
        Ok(target)
    }

    /// The place that a listing's page ended at, as [`encode`](Self::encode) wrote it.
    ///
    /// # Errors
    /// [`ServiceError::Form`].
    pub fn after(cursor: &[u8]) -> Result<Self, ServiceError> {
        Self::decode(cursor).ok_or(ServiceError::Form {
            field: Field::Cursor,
            wrong: "it is none of ours; begin without one",
        })
    }

    /// Every key in every policy.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// The same, in the policy `resource` alone.
    #[must_use]
    pub fn of_resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// The same, for the key `entity` alone.
    #[must_use]
    pub fn of_entity(mut self, entity: impl Into<Vec<u8>>) -> Self {
        self.entity = Some(entity.into());
        self
    }

    /// How much it is about.
    #[must_use]
    pub const fn level(&self) -> Level {
        match (&self.entity, &self.resource) {
            (Some(_), Some(_)) => Level::EntityAndResource,
            (Some(_), None) => Level::Entity,
            (None, Some(_)) => Level::Resource,
            (None, None) => Level::System,
        }
    }

    /// Whether it is about the policy `name`.
    pub(super) fn concerns(&self, name: &str) -> bool {
        self.resource
            .as_deref()
            .is_none_or(|resource| resource == name)
    }

    /// As a store keeps it, and as a listing's end may be written:
    /// `entity? u8, length u32, entity, resource? u8, resource`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let entity = self.entity.as_deref().unwrap_or_default();
        let mut out = vec![u8::from(self.entity.is_some())];
        out.extend((entity.len() as u32).to_le_bytes());
        out.extend(entity);
        out.push(u8::from(self.resource.is_some()));
        out.extend(self.resource.as_deref().unwrap_or_default().as_bytes());
        out
    }

    /// The place that [`encode`](Self::encode) wrote; `None` for other bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (has_entity, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (entity, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (has_resource, resource) = rest.split_first()?;
        let resource = std::str::from_utf8(resource).ok()?;
        Some(Self {
            resource: (*has_resource == 1).then(|| resource.to_owned()),
            entity: (*has_entity == 1).then(|| entity.to_vec()),
        })
    }
}

impl Level {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EntityAndResource => "entity_and_resource",
            Self::Entity => "entity",
            Self::Resource => "resource",
            Self::System => "system",
        }
    }
}

impl fmt::Display for OverrideTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.resource {
            Some(resource) => write!(f, "{resource}")?,
            None => write!(f, "every policy")?,
        }
        match &self.entity {
            Some(entity) => write!(f, "/{}", String::from_utf8_lossy(entity)),
            None => Ok(()),
        }
    }
}
