//! ACQUIRE.

use tidegate_service::{Entry, Scope, Served, Ticket, Told, Undelivered};

use super::ask::{Asked, For};
use super::facts;
use super::named::{key, policy_for};
use crate::command::shape::Flow;
use crate::error::Fault;
use crate::parse::Arguments;
use crate::reply::Replies;
use crate::session::Session;

/// How many facts an answer to ACQUIRE has: the lease's four, the decision's,
/// the words that come with it, and when it was granted.
const FACTS: usize = 6 + facts::DECISION_FACTS;

pub(in crate::command) async fn acquire(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy_for(session, arguments, Scope::Decide)?;
    let asked = Asked::read(arguments, &served, For::Lease)?;
    let key = key(arguments);
    let entry = served.acquire(key, asked.ask()).await?;
    let lease = Undelivered::of(&served, key, &entry, asked.idempotency.is_some());
    session.undelivered.extend(lease);
    write(&mut session.replies, &served, &entry);
    Ok(Flow::Next)
}

fn write(replies: &mut Replies, served: &Served, entry: &Entry) {
    replies.map(FACTS);
    let ticket = match entry {
        Entry::Granted(ticket) => Some(ticket),
        Entry::Refused(_) | Entry::Degraded(_) => None,
    };
    lease(replies, ticket);
    facts::told(replies, &Told::entered(served, entry));
    replies.text("metadata");
    let words = ticket.map(Ticket::metadata);
    replies.map(words.map_or(0, |words| words.len()));
    for (name, word) in words.into_iter().flatten() {
        replies.text(name);
        replies.text(word);
    }
    replies.text("granted_at_us");
    facts::optional_instant(replies, ticket.map(|ticket| ticket.granted_at));
}

/// Four facts: what settles it, its fence, its expiry, whether it is an old one.
fn lease(replies: &mut Replies, ticket: Option<&Ticket>) {
    replies.text("lease");
    let id = ticket.map(|ticket| ticket.id.to_string());
    facts::optional_text(replies, id.as_deref());
    replies.text("fence");
    optional_count(replies, ticket.map(|ticket| ticket.fence));
    replies.text("expires_at_us");
    let expires_at = ticket.map(|ticket| ticket.expires_at.as_micros().unsigned_abs());
    optional_count(replies, expires_at);
    replies.text("repeated");
    replies.boolean(ticket.is_some_and(|ticket| ticket.repeated));
}

fn optional_count(replies: &mut Replies, count: Option<u64>) {
    match count {
        Some(count) => replies.count(count),
        None => replies.null(),
    }
}
