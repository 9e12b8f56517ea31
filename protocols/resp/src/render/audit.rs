//! Audit events: what was changed, by whom, from where.

use tidegate_service::{AuditEvent, AuditValue};

use super::reply::Replies;
use super::{entities, facts, overrides};

/// What was done, to what, by whom, from where and why; what was there before and is from then on.
pub(super) fn shown(replies: &mut Replies, event: &AuditEvent) {
    replies.map(13);
    replies.text("version");
    replies.count(event.version);
    replies.text("at_us");
    facts::optional_instant(replies, Some(event.at));
    replies.text("action");
    replies.text(event.action.name());
    overrides::target(replies, &event.target);
    let texts = [
        ("entity", &event.entity),
        ("by", &event.by),
        ("protocol", &event.protocol),
        ("peer", &event.peer),
        ("reason", &event.reason),
    ];
    for (name, text) in texts {
        replies.text(name);
        facts::optional_text(replies, text.as_deref());
    }
    for (name, value) in [("before", &event.before), ("after", &event.after)] {
        replies.text(name);
        match value {
            Some(AuditValue::Override(value)) => overrides::value(replies, value),
            Some(AuditValue::Entity(value)) => entities::value(replies, value),
            _ => replies.null(),
        }
    }
    replies.text("details");
    replies.array(event.details.len());
    event.details.iter().for_each(|detail| replies.text(detail));
}
