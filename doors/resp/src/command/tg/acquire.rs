//! ACQUIRE, and waiting for one.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate::gate::{Entry, GateError, Scope, Served, Ticket};
use tidegate::{Ask, Key};

use super::ask::{Asked, For, Manner};
use super::facts;
use super::named::{key, policy};
use crate::command::dispatch::Flow;
use crate::fault::Fault;
use crate::parse::Arguments;
use crate::reply::Replies;
use crate::session::Session;

/// How many facts an answer to ACQUIRE has: the lease's four, the decision's,
/// and the words that come with it.
const FACTS: usize = 5 + facts::DECISION_FACTS;

pub(in crate::command) fn acquire(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Decide)?;
    let asked = Asked::read(arguments, &served, For::Lease)?;
    if asked.manner.waits() {
        let waiting = Waiting::new(served, key(arguments), &asked);
        return Ok(Flow::Wait(Box::new(waiting)));
    }
    let entry = at_once(served.acquire(key(arguments), asked.ask()))?;
    write(&mut session.replies, &served, &entry);
    Ok(Flow::Next)
}

/// The answer to an ask that does not wait.
fn at_once(asked: impl Future<Output = Result<Entry, GateError>>) -> Result<Entry, GateError> {
    let mut asked = std::pin::pin!(asked);
    let mut context = Context::from_waker(Waker::noop());
    match asked.as_mut().poll(&mut context) {
        Poll::Ready(entry) => entry,
        // It takes its place in the queue back.
        Poll::Pending => Err(GateError::Busy),
    }
}

/// An ask that may wait: what it needs of its request, which is gone by then.
#[derive(Debug)]
pub(crate) struct Waiting {
    served: Arc<Served>,
    key: Vec<u8>,
    named: Vec<(String, u64)>,
    idempotency: Option<Vec<u8>>,
    manner: Manner,
}

impl Waiting {
    fn new(served: Arc<Served>, key: Key<'_>, asked: &Asked<'_>) -> Self {
        let named = asked.named.iter();
        Self {
            served,
            key: key.bytes().to_vec(),
            named: named
                .map(|&(name, amount)| (name.to_owned(), amount))
                .collect(),
            idempotency: asked.idempotency.map(<[u8]>::to_vec),
            manner: asked.manner,
        }
    }

    /// Waits for its turn. Dropping the future gives its place back.
    pub(crate) async fn turn(&self) -> Result<Entry, GateError> {
        let named = self.named.iter();
        let named: Vec<_> = named
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect();
        let mut ask = self.manner.of(Ask::named(&named));
        if let Some(key) = &self.idempotency {
            ask = ask.idempotency(key);
        }
        self.served.acquire(Key::from(&self.key), ask).await
    }

    /// Writes what it was told.
    pub(crate) fn write(&self, replies: &mut Replies, told: &Result<Entry, GateError>) {
        match told {
            Ok(entry) => write(replies, &self.served, entry),
            Err(error) => {
                let fault = Fault::from(error.clone());
                replies.error(fault.code(), &fault);
            }
        }
    }

    /// Nobody was there to be told of the lease: it is given back.
    pub(crate) fn give_back(&self, ticket: &Ticket) {
        if !ticket.repeated {
            // If the store cannot, it gives back at expiry.
            let _ = self.served.cancel(Key::from(&self.key), ticket.id);
        }
    }
}

fn write(replies: &mut Replies, served: &Served, entry: &Entry) {
    replies.map(FACTS);
    match entry {
        Entry::Granted(ticket) => {
            lease(replies, Some(ticket));
            facts::granted(replies, served, ticket);
        }
        Entry::Refused(decision) => {
            lease(replies, None);
            facts::decision(replies, served, decision);
        }
        Entry::Degraded(_) => {
            lease(replies, None);
            facts::blindly(replies, served);
        }
    }
    let ticket = match entry {
        Entry::Granted(ticket) => Some(ticket),
        Entry::Refused(_) | Entry::Degraded(_) => None,
    };
    replies.text("metadata");
    let words = ticket.map(Ticket::metadata);
    replies.map(words.map_or(0, |words| words.len()));
    for (name, word) in words.into_iter().flatten() {
        replies.text(name);
        replies.text(word);
    }
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
