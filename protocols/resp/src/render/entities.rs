//! Entities: who belongs to whom.

use tidegate_service::{Entity, EntityValue};

use super::facts;
use super::reply::Replies;

/// How many facts [`facts_of`] writes.
const FACTS: usize = 7;

/// As it is kept: its id, version and parent, what is said of it, who changed it last, and when.
pub(super) fn shown(replies: &mut Replies, entity: &Entity) {
    replies.map(FACTS + 2);
    head(replies, entity);
}

/// What is said of one: not its id and version.
pub(super) fn value(replies: &mut Replies, value: &EntityValue) {
    replies.map(FACTS);
    facts_of(replies, value);
}

/// An entity as it is kept, with the ids of its ancestors, the root's first.
pub(super) fn below(replies: &mut Replies, entity: &Entity, ancestors: &[String]) {
    replies.map(FACTS + 3);
    head(replies, entity);
    replies.text("ancestors");
    replies.array(ancestors.len());
    ancestors.iter().for_each(|id| replies.text(id));
}

fn head(replies: &mut Replies, entity: &Entity) {
    replies.text("id");
    replies.text(&entity.id);
    replies.text("version");
    replies.count(entity.version);
    facts_of(replies, &entity.value);
}

fn facts_of(replies: &mut Replies, value: &EntityValue) {
    replies.text("parent");
    facts::optional_text(replies, value.parent.as_deref());
    replies.text("name");
    replies.text(&value.name);
    replies.text("metadata");
    replies.map(value.metadata.len());
    for (word, says) in &value.metadata {
        replies.text(word);
        replies.text(says);
    }
    replies.text("charge_parents");
    replies.boolean(value.charge_parents);
    replies.text("by");
    facts::optional_text(replies, value.by.as_deref());
    replies.text("created_at_us");
    facts::optional_instant(replies, value.created_at);
    replies.text("changed_at_us");
    facts::optional_instant(replies, value.changed_at);
}
