//! Namespaces: parts of the store that share nothing.

use tidegate_service::{Namespace, Purge};

use super::facts;
use super::reply::Replies;

/// As it is kept: its name, version and state, who changed it last, and when.
pub(super) fn shown(replies: &mut Replies, namespace: &Namespace) {
    replies.map(6);
    replies.text("name");
    replies.text(&namespace.name);
    replies.text("version");
    replies.count(namespace.version);
    replies.text("state");
    replies.text(namespace.state.name());
    replies.text("by");
    facts::optional_text(replies, namespace.by.as_deref());
    replies.text("created_at_us");
    facts::optional_instant(replies, namespace.created_at);
    replies.text("changed_at_us");
    facts::optional_instant(replies, namespace.changed_at);
}

/// How many items were removed, and whether nothing is left.
pub(super) fn purged(replies: &mut Replies, purge: Purge) {
    replies.map(2);
    replies.text("removed");
    replies.count(purge.removed);
    replies.text("done");
    replies.boolean(purge.is_done);
}
