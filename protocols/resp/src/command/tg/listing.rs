//! KEYS, LEASES, REVOKE: what a policy holds.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate::{ListedKey, PageOf};
use tidegate::{Page, Select, Timestamp};
use tidegate_service::{HeldTicket, LeaseHandle, Scope, Served, Told, bounds};

use super::ask::once;
use super::ending;
use super::facts;
use super::named::{key, policy, policy_for};
use crate::command::number::{ANY, natural};
use crate::command::shape::Flow;
use crate::error::{Fault, quoted};
use crate::parse::Arguments;
use crate::reply::Replies;
use crate::session::Session;

/// Where a page has ended, as people can type it.
pub(super) struct Cursor;

impl Cursor {
    pub(super) fn bytes(text: &[u8]) -> Result<Vec<u8>, Fault> {
        URL_SAFE_NO_PAD.decode(text).map_err(|_| Fault::Cursor)
    }

    pub(super) fn write(replies: &mut Replies, end: Option<&[u8]>) {
        let end = end.map(|end| URL_SAFE_NO_PAD.encode(end));
        facts::optional_text(replies, end.as_deref());
    }
}

/// How many items a page has.
pub(super) fn most(count: Option<&[u8]>) -> Result<usize, Fault> {
    let count = count
        .map(|count| natural(count, ANY, "COUNT"))
        .transpose()?;
    Ok(bounds::page(count)?)
}

pub(in crate::command) async fn keys(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Observe)?;
    let said = Said::read(arguments)?;
    let Page { items, next } = served.list_keys(said.page()).await?;
    let replies = &mut session.replies;
    begin(replies, "keys", items.len());
    let now = served.now();
    items
        .iter()
        .for_each(|item| listed(replies, &served, item, now));
    end(replies, next.as_deref());
    Ok(Flow::Next)
}

pub(in crate::command) async fn leases(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Observe)?;
    let said = Said::read(arguments)?;
    let Page { items, next } = served.list_leases(said.page()).await?;
    let replies = &mut session.replies;
    begin(replies, "leases", items.len());
    items.iter().for_each(|item| held(replies, &served, item));
    end(replies, next.as_deref());
    Ok(Flow::Next)
}

/// Ends the lease of a handle, as its holder's release would.
pub(in crate::command) async fn revoke(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let handle = LeaseHandle::read(arguments.get(3).unwrap_or_default())?;
    let served = policy_for(session, arguments, Scope::Administer)?;
    let caller = session.caller()?.clone();
    let finished = served.revoke(&caller, key(arguments), handle).await?;
    ending::write(&mut session.replies, &served, &finished);
    Ok(Flow::Next)
}

/// `[KEY key | PREFIX text] [CURSOR c] [COUNT n]`
struct Said<'a> {
    key: Option<&'a [u8]>,
    prefix: Option<&'a [u8]>,
    after: Option<Vec<u8>>,
    most: usize,
}

impl<'a> Said<'a> {
    fn read(arguments: Arguments<'a>) -> Result<Self, Fault> {
        let (mut key, mut prefix, mut cursor, mut count) = (None, None, None, None);
        let mut words = arguments.from(2);
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
            match word.to_ascii_uppercase().as_slice() {
                b"KEY" if prefix.is_none() => once(&mut key, next()?, "KEY")?,
                b"PREFIX" if key.is_none() => once(&mut prefix, next()?, "PREFIX")?,
                b"CURSOR" => once(&mut cursor, next()?, "CURSOR")?,
                b"COUNT" => once(&mut count, next()?, "COUNT")?,
                _ => return Err(Fault::Syntax(quoted(word))),
            }
        }
        Ok(Self {
            key,
            prefix,
            after: cursor.map(Cursor::bytes).transpose()?,
            most: most(count)?,
        })
    }

    fn page(&self) -> PageOf<'_> {
        let select = match (self.key, self.prefix) {
            (Some(key), _) => Select::Key(key),
            (None, Some(prefix)) => Select::Prefix(prefix),
            (None, None) => Select::All,
        };
        PageOf {
            select,
            after: self.after.as_deref(),
            most: self.most,
        }
    }
}

fn begin(replies: &mut Replies, items: &str, count: usize) {
    replies.map(2);
    replies.text(items);
    replies.array(count);
}

fn end(replies: &mut Replies, next: Option<&[u8]>) {
    replies.text("cursor");
    Cursor::write(replies, next);
}

fn listed(replies: &mut Replies, served: &Served, listed: &ListedKey, now: Timestamp) {
    let decision = &listed.decision;
    replies.map(3);
    replies.text("key");
    replies.bulk(&listed.key);
    replies.text("member");
    facts::optional_text(replies, decision.member());
    replies.text("limits");
    facts::standings(replies, &Told::decided(served, decision).as_of(now));
}

fn held(replies: &mut Replies, served: &Served, held: &HeldTicket) {
    replies.map(7);
    replies.text("key");
    replies.bulk(&held.key);
    replies.text("member");
    facts::optional_text(replies, held.member.as_deref());
    replies.text("handle");
    replies.text(&held.handle.to_string());
    replies.text("fence");
    replies.count(held.fence);
    replies.text("expires_at_us");
    replies.integer(held.expires_at.as_micros());
    replies.text("taken");
    replies.map(held.taken.len());
    for (name, amount) in &held.taken {
        replies.text(name);
        facts::amount(replies, served.unit(name), *amount);
    }
    replies.text("granted_at_us");
    replies.integer(held.granted_at.as_micros());
}
