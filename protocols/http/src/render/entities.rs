//! Entities: who belongs to whom.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tidegate::Page;
use tidegate_service::{Entity, EntityValue};

use super::instant::Instant;
use super::listing::cursor;

/// A page of entities.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Entities<'a> {
    entities: Vec<Shown<'a>>,
    /// Where the next page goes on; null if this is the last.
    cursor: Option<String>,
}

impl<'a> From<&'a Page<Entity>> for Entities<'a> {
    fn from(page: &'a Page<Entity>) -> Self {
        Self {
            entities: page.items.iter().map(Shown::from).collect(),
            cursor: cursor(page),
        }
    }
}

/// An entity: somebody or something that has limits, and may belong to another one.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "Entity",
    example = json!({
        "id": "alice", "version": 18, "ancestors": ["acme", "search"], "parent": "search",
        "name": "Alice", "metadata": {"tier": "gold"}, "charge_parents": true, "by": "ops",
        "created_at": "2026-01-01T12:00:00Z", "changed_at": "2026-01-01T12:00:00Z"
    })
)]
pub(crate) struct Shown<'a> {
    /// Its id.
    #[schemars(length(min = 1, max = 256))]
    id: &'a str,
    /// Of its last change: the `ETag` of the answer about it alone is this in quotes.
    #[schemars(range(min = 1))]
    version: u64,
    /// The ids of its ancestors, the root's first. Missing in listings.
    #[serde(skip_serializing_if = "Option::is_none")]
    ancestors: Option<&'a [String]>,
    #[serde(flatten)]
    value: Value<'a>,
}

/// What is said of an entity.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EntityValue")]
pub(super) struct Value<'a> {
    /// To whom it belongs; missing for a root.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    /// What people call it; empty if nothing was said.
    name: &'a str,
    /// Words of its owner's.
    metadata: &'a BTreeMap<String, String>,
    /// Whether its ancestors' limits count, too: they can refuse, and they are charged.
    charge_parents: bool,
    /// The name of the token that changed it last; `anyone` where there are no tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Instant>,
    /// When it was changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_at: Option<Instant>,
}

impl<'a> From<&'a Entity> for Shown<'a> {
    fn from(entity: &'a Entity) -> Self {
        Self {
            id: &entity.id,
            version: entity.version,
            ancestors: None,
            value: Value::from(&entity.value),
        }
    }
}

impl<'a> Shown<'a> {
    /// With the ids of its ancestors.
    pub(super) fn below(entity: &'a Entity, ancestors: &'a [String]) -> Self {
        Self {
            ancestors: Some(ancestors),
            ..Self::from(entity)
        }
    }
}

impl<'a> From<&'a EntityValue> for Value<'a> {
    fn from(value: &'a EntityValue) -> Self {
        Self {
            parent: value.parent.as_deref(),
            name: &value.name,
            metadata: &value.metadata,
            charge_parents: value.charge_parents,
            by: value.by.as_deref(),
            created_at: value.created_at.map(Instant),
            changed_at: value.changed_at.map(Instant),
        }
    }
}
