//! One override that a server is to keep.

use std::collections::HashMap;
use std::ops::Range;

use jiff::Timestamp;

use super::bounds::wrong_reason;
use super::entity::{DesiredEntity, absent, named, refuse};
use crate::fault::Faults;
use crate::fields::{Field, Fields};
use crate::limit;
use crate::shape::Shape;

const SETTINGS: [&str; 9] = [
    "policy",
    "key",
    "key_base64",
    "entity",
    "everywhere",
    "limits",
    "expires_at",
    "reason",
    "absent",
];

/// What one says that is there.
const SAID: [&str; 3] = ["limits", "expires_at", "reason"];

/// Settings of a limit that no override changes: how it counts stays the policy's.
pub const FIXED_SETTINGS: [&str; 5] = ["level", "shadow", "postpaid", "on_failure", "learnt"];

/// For which key an override is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DesiredKey {
    /// The key, or an ancestor of keys.
    Text(String),
    /// The same, of any bytes, in Base64.
    Base64(String),
    /// The key of an entity, by its id.
    Entity(String),
}

/// An override as a file says it, which is all of it: what it does not say is not to be there.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DesiredOverride {
    /// The line of the file where it begins, counted from 1.
    pub line: usize,
    /// Whether none is to be there; then nothing else is said of it.
    pub absent: bool,
    /// The policy; every policy without.
    pub policy: Option<String>,
    /// The key; every key without.
    pub key: Option<DesiredKey>,
    /// What limits become, by name, as the file has them; at least one unless it is absent.
    pub limits: Shape,
    /// Until when it holds; for good without.
    pub expires_at: Option<Timestamp>,
    /// Why.
    pub reason: Option<String>,
}

/// Reads an override, which begins at `span`; `None` if it is none at all.
pub(super) fn read(
    mut fields: Fields<'_>,
    span: &Range<usize>,
    line: usize,
    faults: &mut Faults<'_>,
) -> Option<DesiredOverride> {
    let absent = absent(&mut fields, ("this override", &SAID), faults);
    let policy = fields.take("policy").and_then(|field| {
        let policy = field.text("chat", faults)?;
        if policy.is_empty() {
            let help = "leave it out to mean every policy";
            faults.add(&field.span, "`policy` is empty", help);
        }
        Some(policy.to_owned())
    });
    let key = key(&mut fields, faults);
    everywhere(&mut fields, policy.is_some() || key.is_some(), span, faults);
    let limits = fields.take("limits");
    if limits.is_none() && !absent {
        let help =
            "write them as `limits.rpm = { calls = 1000, per = \"1m\" }`, or `absent = true`";
        faults.add(span, "this override has no limits", help);
    }
    let is_of_one_key = policy.is_some() && key.is_some();
    let limits = limits.map(|field| limits_of(&field, is_of_one_key, faults));
    let expires_at = fields.take("expires_at");
    let expires_at = expires_at.and_then(|field| instant(&field, faults));
    let reason = fields.take("reason").and_then(|field| {
        let reason = field.text("bought more", faults)?;
        refuse(&field, wrong_reason(reason), faults);
        Some(reason.to_owned())
    });
    fields.finish("an override", &SETTINGS, faults);
    Some(DesiredOverride {
        line,
        absent,
        policy,
        key,
        limits: limits.unwrap_or(Shape::Table(Vec::new())),
        expires_at,
        reason,
    })
}

fn key(fields: &mut Fields<'_>, faults: &mut Faults<'_>) -> Option<DesiredKey> {
    let mut found = None;
    for setting in ["key", "key_base64", "entity"] {
        let Some(field) = fields.take(setting) else {
            continue;
        };
        if found.is_some() {
            let message = "an override is for one key or one entity, and no more";
            faults.add(&field.key_span, message, "remove one of the two");
        }
        found = match setting {
            "entity" => named(&field, faults).map(DesiredKey::Entity),
            "key" => field
                .text("acme/alice", faults)
                .map(|key| DesiredKey::Text(key.to_owned())),
            _ => field
                .text("/w==", faults)
                .map(|key| DesiredKey::Base64(key.to_owned())),
        };
    }
    found
}

/// One for everything is not meant by leaving something out.
fn everywhere(
    fields: &mut Fields<'_>,
    is_for_something: bool,
    span: &Range<usize>,
    faults: &mut Faults<'_>,
) {
    let field = fields.take("everywhere");
    let said = field.as_ref().and_then(|field| field.flag(faults)) == Some(true);
    match (said, is_for_something, field) {
        (true, true, Some(field)) => faults.add(
            &field.key_span,
            "this override is for something, and not for everything",
            "remove `everywhere`, or what it is for",
        ),
        (false, false, _) => faults.add(
            span,
            "this override does not say what it is for",
            "write `policy`, `key` or `entity`, or `everywhere = true`",
        ),
        _ => {}
    }
}

fn limits_of(field: &Field<'_>, is_of_one_key: bool, faults: &mut Faults<'_>) -> Shape {
    let example = "`limits.rpm = { calls = 1000, per = \"1m\" }`";
    let fields = field.table(example, faults);
    let limits = fields.map(Fields::into_all);
    if limits.as_ref().is_some_and(Vec::is_empty) {
        let help = format!("write one, such as {example}");
        faults.add(&field.key_span, "there is no limit in it", help);
    }
    for entry in limits.unwrap_or_default() {
        let settings = entry.table(example, faults).map(Fields::into_all);
        let mut fixed = settings.into_iter().flatten();
        match fixed.find(|setting| FIXED_SETTINGS.contains(&setting.name)) {
            Some(fixed) => {
                let message = format!("`{}` stays as the policy has it", fixed.name);
                let help = "remove it; an override changes how much, not how it is counted";
                faults.add(&fixed.key_span, message, help);
            }
            None => {
                if limit::read_override(&entry, faults) == Some(true) && !is_of_one_key {
                    let message = format!("`{}` is added to more than one key", entry.name);
                    let help = "name a policy, and a key or an entity";
                    faults.add(&entry.key_span, message, help);
                }
            }
        }
    }
    Shape::of(field.node())
}

fn instant(field: &Field<'_>, faults: &mut Faults<'_>) -> Option<Timestamp> {
    let text = match field.date() {
        Some(date) => date,
        None => field.text("2030-12-31T23:59:59Z", faults)?,
    };
    let read = text.parse();
    if read.is_err() {
        let help = "write a day, a time and an offset, such as \"2030-12-31T23:59:59Z\"";
        faults.add(&field.span, format!("`{text}` is no instant"), help);
    }
    read.ok()
}

/// Tells of two overrides for the same, and of one for an entity that is to be absent.
pub(super) fn check(
    overrides: &[(Range<usize>, DesiredOverride)],
    entities: &[(Range<usize>, DesiredEntity)],
    faults: &mut Faults<'_>,
) {
    let absent = entities.iter().filter(|(_, entity)| entity.absent);
    let absent: std::collections::HashSet<&str> = absent.map(|(_, entity)| &*entity.id).collect();
    let mut known = HashMap::new();
    for (span, said) in overrides {
        let first = *known.entry((&said.policy, &said.key)).or_insert(said.line);
        if first != said.line {
            let message = format!("there is an override for the same on line {first}");
            faults.add(span, message, "remove one of the two");
        }
        if let Some(DesiredKey::Entity(id)) = &said.key
            && !said.absent
            && absent.contains(&**id)
        {
            let message = format!("this override is for `{id}`, which is to be absent");
            faults.add(span, message, "remove one of the two");
        }
    }
}
