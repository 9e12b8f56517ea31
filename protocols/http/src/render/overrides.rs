//! Limits in place of what the policies say.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::json;
use tidegate::{Limit, Page, Unit};
use tidegate_service::{Level, Record, Setting, StoredOverride, settings_of};

use super::instant::Instant;
use super::listing::{Name, cursor};
use crate::parse::amount::InUnit;
use crate::parse::override_limits::OverrideLimit;

/// A page of overrides.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Overrides<'a> {
    overrides: Vec<Shown<'a>>,
    /// Where the next page goes on; null if this is the last.
    cursor: Option<String>,
}

impl<'a> From<&'a Page<StoredOverride>> for Overrides<'a> {
    fn from(page: &'a Page<StoredOverride>) -> Self {
        Self {
            overrides: page.items.iter().map(Shown::from).collect(),
            cursor: cursor(page),
        }
    }
}

/// The one of exactly one place, as a page.
impl<'a> From<&'a Option<StoredOverride>> for Overrides<'a> {
    fn from(stored_override: &'a Option<StoredOverride>) -> Self {
        Self {
            overrides: stored_override.iter().map(Shown::from).collect(),
            cursor: None,
        }
    }
}

/// An override that is set: for every key if it names none. Where policies have levels, `acme`
/// is the ancestor of `acme/alice`: limits of the first level are overridden by it.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "Override",
    example = json!({
        "policy": "chat", "key": "acme/alice", "level": "key_and_policy",
        "limits": {"tpm": {"rate": 12000, "per": "1m", "burst": 18000}}, "inert": [],
        "version": 18, "by": "ops", "reason": "bought more",
        "created_at": "2026-01-01T12:00:00Z", "changed_at": "2026-01-01T12:00:00Z"
    })
)]
pub(crate) struct Shown<'a> {
    /// The policy; every policy if it is missing.
    #[schemars(length(min = 1), example = &"chat")]
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(flatten)]
    key: Name<'a>,
    /// How specific it is: for a key in a policy, for a key, for a policy, for all. The first of
    /// these that says something of a limit holds.
    #[schemars(extend("enum" = Level::ALL.map(Level::name)))]
    level: &'static str,
    /// What the limits become, by name.
    #[schemars(with = "BTreeMap<String, OverrideLimit>")]
    limits: Limits<'a>,
    /// The names of those without effect now: no policy that it is for has such a limit. They
    /// hold as soon as one has.
    inert: &'a [String],
    /// Of its last change: the `ETag` of the answer about it alone is this in quotes.
    #[schemars(range(min = 1))]
    version: u64,
    #[serde(flatten)]
    recorded: Recorded<'a>,
}

/// Who set it, why, when, and until when it holds.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Recorded<'a> {
    /// The name of the token that set it last; `anyone` where there are no tokens. Missing where
    /// an earlier version of Tidegate did.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    /// Why, if that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// When it ends; for good if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Instant>,
    /// When it was set first.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Instant>,
    /// When it was set last.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_at: Option<Instant>,
}

impl<'a> From<&'a Record> for Recorded<'a> {
    fn from(record: &'a Record) -> Self {
        Self {
            by: record.by.as_deref(),
            reason: record.reason.as_deref(),
            expires_at: record.expires_at.map(Instant),
            created_at: record.created_at.map(Instant),
            changed_at: record.changed_at.map(Instant),
        }
    }
}

impl<'a> From<&'a StoredOverride> for Shown<'a> {
    fn from(stored_override: &'a StoredOverride) -> Self {
        Self {
            policy: stored_override.target.policy.as_deref(),
            key: stored_override
                .target
                .key
                .as_deref()
                .map(Name::from)
                .unwrap_or_default(),
            level: stored_override.target.level().name(),
            limits: Limits(&stored_override.limits),
            inert: &stored_override.inert,
            version: stored_override.version,
            recorded: Recorded::from(&stored_override.record),
        }
    }
}

/// Limits as requests have them.
pub(super) struct Limits<'a>(pub(super) &'a [Limit]);

struct Fields<'a>(&'a Limit);

struct SettingBody(Unit, Setting);

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let limits = self.0.iter();
        serializer.collect_map(limits.map(|limit| (limit.name(), Fields(limit))))
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = settings_of(self.0).into_iter();
        serializer.collect_map(
            fields.map(|(field, setting)| (field, SettingBody(self.0.amounts(), setting))),
        )
    }
}

impl Serialize for SettingBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.1 {
            Setting::Integer(number) => serializer.serialize_u64(*number),
            Setting::Units(amount) => InUnit(self.0, *amount).serialize(serializer),
            Setting::Text(text) => serializer.serialize_str(text),
            Setting::Flag(flag) => serializer.serialize_bool(*flag),
        }
    }
}
