//! Limits in place of what the policies say.

use tidegate::Limit;
use tidegate_service::{Placed, Setting, settings_of};

use super::facts;
use super::reply::Replies;

/// Whose it is, how specific, what the limits become, and which have no effect.
pub(super) fn shown(replies: &mut Replies, placed: &Placed) {
    replies.map(5);
    replies.text("policy");
    facts::optional_text(replies, placed.place.resource.as_deref());
    replies.text("key");
    match &placed.place.entity {
        Some(key) => replies.bulk(key),
        None => replies.null(),
    }
    replies.text("level");
    replies.text(placed.place.level().name());
    replies.text("limits");
    replies.map(placed.limits.len());
    placed.limits.iter().for_each(|each| limit(replies, each));
    replies.text("inert");
    replies.array(placed.inert.len());
    placed.inert.iter().for_each(|name| replies.text(name));
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
