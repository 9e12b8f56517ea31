//! A setting that becomes something else, and which of an override's do.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidegate::{Limit, Unit};
use tidegate_policy::DesiredOverride;
use tidegate_service::{Setting, read_limits, settings_of};

use crate::shape::json_of;

/// A setting that becomes something else; null stands for nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// Its name: `name`, `limits.rpm.calls`.
    pub setting: String,
    /// As it is.
    pub was: Value,
    /// As it is to be.
    pub becomes: Value,
}

impl Change {
    /// From what it was to what it becomes.
    pub fn of(setting: &str, was: &Value, becomes: &Value) -> Self {
        Self {
            setting: setting.to_owned(),
            was: was.clone(),
            becomes: becomes.clone(),
        }
    }
}

/// What of an override becomes something else: of one that is there, or of none.
pub fn changes(said: &DesiredOverride, there: Option<&Value>) -> Vec<Change> {
    let nothing = Value::Null;
    let there = there.unwrap_or(&nothing);
    let mut changes = of_limits(&json_of(&said.limits), &there["limits"]);
    let expires_at = said.expires_at.map(|at| json!(at.to_string()));
    let same = instant(&there["expires_at"]) == said.expires_at.map(Timestamp::as_microsecond);
    if !same {
        changes.push(Change::of(
            "expires_at",
            &there["expires_at"],
            &json!(expires_at),
        ));
    }
    if there["reason"].as_str() != said.reason.as_deref() {
        changes.push(Change::of("reason", &there["reason"], &json!(said.reason)));
    }
    changes
}

fn instant(shown: &Value) -> Option<i64> {
    let read: Timestamp = shown.as_str()?.parse().ok()?;
    Some(read.as_microsecond())
}

fn of_limits(said: &Value, there: &Value) -> Vec<Change> {
    let empty = Map::new();
    let (said, there) = (
        said.as_object().unwrap_or(&empty),
        there.as_object().unwrap_or(&empty),
    );
    let mut changes = Vec::new();
    for (name, becomes) in said {
        match there.get(name) {
            None => changes.push(Change::of(&format!("limits.{name}"), &Value::Null, becomes)),
            Some(was) => changes.extend(of_limit(name, was, becomes)),
        }
    }
    let gone = there.iter().filter(|(name, _)| !said.contains_key(*name));
    changes
        .extend(gone.map(|(name, was)| Change::of(&format!("limits.{name}"), was, &Value::Null)));
    changes
}

/// What of one limit becomes something else: `60s` and `1m` are the same.
fn of_limit(name: &str, was: &Value, becomes: &Value) -> Vec<Change> {
    let mut in_units = becomes.clone();
    if let (Some(unit), Some(fields)) = (was.get("unit"), in_units.as_object_mut()) {
        fields.entry("unit").or_insert_with(|| unit.clone());
    }
    let (Some(is), Some(wanted)) = (read(name, was), read(name, &in_units)) else {
        let same = was == becomes;
        let change = (!same).then(|| Change::of(&format!("limits.{name}"), was, becomes));
        return change.into_iter().collect();
    };
    if is == wanted {
        return Vec::new();
    }
    let (is, wanted) = (told(&is), told(&wanted));
    let gone = is.keys().filter(|field| !wanted.contains_key(*field));
    let fields = wanted.keys().chain(gone);
    let fields = fields.filter(|field| is.get(*field) != wanted.get(*field));
    fields
        .map(|field| {
            let at = |fields: &Map<String, Value>| fields.get(field).cloned().unwrap_or_default();
            Change::of(&format!("limits.{name}.{field}"), &at(&is), &at(&wanted))
        })
        .collect()
}

fn read(name: &str, fields: &Value) -> Option<Limit> {
    let fields = fields.as_object()?.iter().map(|(field, value)| {
        let setting = match value {
            Value::Number(number) => Setting::Integer(number.as_u64()?),
            Value::String(text) => Setting::Text(text.clone()),
            Value::Bool(flag) => Setting::Flag(*flag),
            _ => return None,
        };
        Some((field.clone(), setting))
    });
    let fields: Option<Vec<_>> = fields.collect();
    let mut limits = read_limits(&[(name.to_owned(), fields?)]).ok()?;
    limits.pop()
}

/// The settings of a limit, each in the one way in which it is shown.
fn told(limit: &Limit) -> Map<String, Value> {
    let unit = limit.amounts();
    let settings = settings_of(limit).into_iter().map(|(field, setting)| {
        let value = match setting {
            Setting::Integer(number) => number.into(),
            Setting::Units(number) if unit == Unit::ONE => number.into(),
            Setting::Units(number) => unit.show(number).to_string().into(),
            Setting::Text(text) => text.into(),
            Setting::Flag(flag) => flag.into(),
        };
        (field.to_owned(), value)
    });
    settings.collect()
}
