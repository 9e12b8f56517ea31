//! Namespaces: parts of the store that share nothing.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tidegate::Page;
use tidegate_service::{Namespace, Purge};

use super::instant::Instant;
use super::listing::cursor;

/// A page of namespaces.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Namespaces<'a> {
    namespaces: Vec<Shown<'a>>,
    /// Where the next page goes on; null if this is the last.
    cursor: Option<String>,
}

impl<'a> From<&'a Page<Namespace>> for Namespaces<'a> {
    fn from(page: &'a Page<Namespace>) -> Self {
        Self {
            namespaces: page.items.iter().map(Shown::from).collect(),
            cursor: cursor(page),
        }
    }
}

/// A part of the store that shares nothing with the rest of it.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "Namespace",
    example = json!({
        "name": "acme", "version": 18, "state": "active", "by": "ops",
        "created_at": "2026-01-01T12:00:00Z", "changed_at": "2026-01-01T12:00:00Z"
    })
)]
pub(crate) struct Shown<'a> {
    /// Its name.
    #[schemars(length(min = 1, max = 64))]
    name: &'a str,
    /// Of its last change.
    #[schemars(range(min = 1))]
    version: u64,
    /// `active`; `deleted`: it answers nobody, and can be restored; `purging`: what it has is being
    /// removed.
    #[schemars(extend("enum" = ["active", "deleted", "purging"]))]
    state: &'static str,
    /// The name of the token that changed it last; `anyone` where there are no tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Instant>,
    /// When it was created, deleted or restored, or began to be purged, last.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_at: Option<Instant>,
}

impl<'a> From<&'a Namespace> for Shown<'a> {
    fn from(namespace: &'a Namespace) -> Self {
        Self {
            name: &namespace.name,
            version: namespace.version,
            state: namespace.state.name(),
            by: namespace.by.as_deref(),
            created_at: namespace.created_at.map(Instant),
            changed_at: namespace.changed_at.map(Instant),
        }
    }
}

/// What was removed of a namespace.
#[derive(Serialize, JsonSchema)]
#[schemars(example = json!({"removed": 1204, "done": true}))]
pub(crate) struct Purged {
    /// How many items, as the store counts them.
    removed: u64,
    /// Whether nothing is left of it. If not, purge it again: that goes on.
    done: bool,
}

impl From<Purge> for Purged {
    fn from(purge: Purge) -> Self {
        Self {
            removed: purge.removed,
            done: purge.is_done,
        }
    }
}
