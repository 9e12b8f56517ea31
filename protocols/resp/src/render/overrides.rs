//! Limits in place of what the policies say.

use tidegate::Limit;
use tidegate_service::{
    OverrideTarget, OverrideValue, Record, Setting, StoredOverride, settings_of,
};

use super::facts;
use super::reply::Replies;

/// How many facts [`limits`] and [`record`] write.
const FACTS: usize = 6;

/// Whose it is, how specific, what the limits become, which have no effect; its version, and who
/// set it, why, when and until when.
pub(super) fn shown(replies: &mut Replies, stored_override: &StoredOverride) {
    replies.map(FACTS + 5);
    target(replies, &stored_override.target);
    replies.text("level");
    replies.text(stored_override.target.level().name());
    limits(replies, &stored_override.limits);
    replies.text("inert");
    replies.array(stored_override.inert.len());
    stored_override
        .inert
        .iter()
        .for_each(|name| replies.text(name));
    replies.text("version");
    replies.count(stored_override.version);
    record(replies, &stored_override.record);
}

/// A policy and a key, two facts: nothing where every one is meant.
pub(super) fn target(replies: &mut Replies, target: &OverrideTarget) {
    replies.text("policy");
    facts::optional_text(replies, target.policy.as_deref());
    replies.text("key");
    match &target.key {
        Some(key) => replies.bulk(key),
        None => replies.null(),
    }
}

/// What the limits become, who set them, why, when and until when.
pub(super) fn value(replies: &mut Replies, value: &OverrideValue) {
    replies.map(FACTS);
    limits(replies, &value.limits);
    record(replies, &value.record);
}

fn limits(replies: &mut Replies, limits: &[Limit]) {
    replies.text("limits");
    replies.map(limits.len());
    limits.iter().for_each(|each| limit(replies, each));
}

fn record(replies: &mut Replies, record: &Record) {
    replies.text("by");
    facts::optional_text(replies, record.by.as_deref());
    replies.text("reason");
    facts::optional_text(replies, record.reason.as_deref());
    let instants = [
        ("expires_at_us", record.expires_at),
        ("created_at_us", record.created_at),
        ("changed_at_us", record.changed_at),
    ];
    for (name, at) in instants {
        replies.text(name);
        facts::optional_instant(replies, at);
    }
}

/// Its fields, as SET takes them.
fn limit(replies: &mut Replies, limit: &Limit) {
    replies.text(limit.name());
    let settings = settings_of(limit);
    replies.map(settings.len());
    for (field, setting) in settings {
        replies.text(field);
        match setting {
            Setting::Integer(number) => replies.count(number),
            Setting::Units(amount) => facts::amount(replies, limit.amounts(), amount),
            Setting::Text(text) => replies.text(&text),
            Setting::Flag(flag) => replies.boolean(flag),
        }
    }
}
