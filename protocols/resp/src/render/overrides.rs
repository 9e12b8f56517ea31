//! Limits in place of what the policies say.

use tidegate::Limit;
use tidegate_service::{Setting, StoredOverride, settings_of};

use super::facts;
use super::reply::Replies;

/// Whose it is, how specific, what the limits become, and which have no effect.
pub(super) fn shown(replies: &mut Replies, stored_override: &StoredOverride) {
    replies.map(5);
    replies.text("policy");
    facts::optional_text(replies, stored_override.target.resource.as_deref());
    replies.text("key");
    match &stored_override.target.entity {
        Some(key) => replies.bulk(key),
        None => replies.null(),
    }
    replies.text("level");
    replies.text(stored_override.target.level().name());
    replies.text("limits");
    replies.map(stored_override.limits.len());
    stored_override
        .limits
        .iter()
        .for_each(|each| limit(replies, each));
    replies.text("inert");
    replies.array(stored_override.inert.len());
    stored_override
        .inert
        .iter()
        .for_each(|name| replies.text(name));
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
