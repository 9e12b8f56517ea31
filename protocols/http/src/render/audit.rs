//! What was changed, and by whom.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tidegate::Page;
use tidegate_service::{Action, AuditEvent, AuditValue};

use super::entities;
use super::instant::Instant;
use super::listing::{Name, cursor};
use super::overrides::{Limits, Recorded};
use crate::parse::override_limits::OverrideLimit;

/// A page of audit events.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Audit<'a> {
    events: Vec<Shown<'a>>,
    /// Where the next page goes on; null if this is the last.
    cursor: Option<String>,
}

impl<'a> From<&'a Page<AuditEvent>> for Audit<'a> {
    fn from(page: &'a Page<AuditEvent>) -> Self {
        Self {
            events: page.items.iter().map(Shown::from).collect(),
            cursor: cursor(page),
        }
    }
}

/// One administrative change: what was done, by whom, from where, and what was there before.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "AuditEvent",
    example = json!({
        "version": 18, "at": "2026-01-01T12:00:00Z", "action": "set_override",
        "policy": "chat", "key": "acme", "by": "ops", "protocol": "http",
        "peer": "192.0.2.7:40112", "reason": "bought more", "before": null,
        "after": {
            "limits": {"rpm": {"calls": 1000, "per": "1m"}}, "by": "ops",
            "reason": "bought more", "created_at": "2026-01-01T12:00:00Z",
            "changed_at": "2026-01-01T12:00:00Z"
        }, "details": []
    })
)]
struct Shown<'a> {
    /// Its place in the order of those of its sort (of overrides, of policies, of keys): it
    /// grows, and has gaps. Of an override, the version that the change gave it.
    version: u64,
    /// When, by the store's clock if it has one, else by the server's.
    at: Instant,
    /// What was done. `failed`: what the event before it tells of, by the same caller, was
    /// answered with an error. `other` is what only a newer server does.
    #[schemars(extend("enum" = actions()))]
    action: &'static str,
    /// The policy; every policy if it is missing.
    #[schemars(length(min = 1), example = &"chat")]
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(flatten)]
    key: Name<'a>,
    /// The id of the entity that was changed; missing elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<&'a str>,
    /// The name of the token that did it; `anyone` where there are no tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    /// By which protocol: `http`, `grpc` or `resp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'a str>,
    /// From which address and port: a proxy's, if there is one between.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'a str>,
    /// Why, if that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The override or the entity as it was; null if there was none.
    before: Option<Value<'a>>,
    /// The override or the entity as it was from then on; null if there was none.
    after: Option<Value<'a>>,
    /// More of it: the handle of a lease that was ended, what other policies have changed; of
    /// `failed`, the action and why, and then these.
    details: &'a [String],
}

/// What an override says, or what is said of an entity.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "AuditValue")]
enum Value<'a> {
    Override(OverrideValue<'a>),
    Entity(entities::Value<'a>),
}

/// What an override says.
#[derive(Serialize, JsonSchema)]
struct OverrideValue<'a> {
    /// What the limits become, by name.
    #[schemars(with = "BTreeMap<String, OverrideLimit>")]
    limits: Limits<'a>,
    #[serde(flatten)]
    recorded: Recorded<'a>,
}

/// Every word for what was done.
fn actions() -> Vec<&'static str> {
    let all = Action::ALL.into_iter().chain([Action::Other]);
    all.map(Action::name).collect()
}

impl<'a> From<&'a AuditEvent> for Shown<'a> {
    fn from(event: &'a AuditEvent) -> Self {
        let key = event.target.key.as_deref();
        Self {
            version: event.version,
            at: Instant(event.at),
            action: event.action.name(),
            policy: event.target.policy.as_deref(),
            key: key.map(Name::from).unwrap_or_default(),
            entity: event.entity.as_deref(),
            by: event.by.as_deref(),
            protocol: event.protocol.as_deref(),
            peer: event.peer.as_deref(),
            reason: event.reason.as_deref(),
            before: event.before.as_ref().and_then(Value::of),
            after: event.after.as_ref().and_then(Value::of),
            details: &event.details,
        }
    }
}

impl<'a> Value<'a> {
    /// What this version can show.
    fn of(value: &'a AuditValue) -> Option<Self> {
        match value {
            AuditValue::Override(value) => Some(Self::Override(OverrideValue {
                limits: Limits(&value.limits),
                recorded: Recorded::from(&value.record),
            })),
            AuditValue::Entity(value) => Some(Self::Entity(value.into())),
            _ => None,
        }
    }
}
