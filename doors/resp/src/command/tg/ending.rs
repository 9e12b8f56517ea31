//! SETTLE, RELEASE, CANCEL, RENEW: what becomes of a lease.

use std::time::Duration;

use tidegate::Settlement;
use tidegate::gate::{Scope, Served};

use super::ask::Named;
use super::facts;
use super::named::{amount, key, lease, policy, unit};
use crate::command::dispatch::{Flow, quoted};
use crate::command::number::natural;
use crate::fault::Fault;
use crate::parse::Arguments;
use crate::reply::Replies;
use crate::session::Session;

pub(in crate::command) fn settle(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Decide)?;
    let used = used(arguments, &served)?;
    let settled = served.settle(key(arguments), lease(arguments)?, &used)?;
    write(&mut session.replies, &served, &settled);
    Ok(Flow::Next)
}

/// `[USED limit n]...`
fn used<'a>(arguments: Arguments<'a>, served: &Served) -> Result<Named<'a>, Fault> {
    let mut used = Named::new();
    let mut words = arguments.from(4);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
        if !word.eq_ignore_ascii_case(b"USED") {
            return Err(Fault::Syntax(quoted(word)));
        }
        used.push(amount(served, next()?, next()?)?);
    }
    Ok(used)
}

pub(in crate::command) fn release(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Decide)?;
    let released = served.release(key(arguments), lease(arguments)?)?;
    write(&mut session.replies, &served, &released);
    Ok(Flow::Next)
}

pub(in crate::command) fn cancel(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Decide)?;
    let cancelled = served.cancel(key(arguments), lease(arguments)?)?;
    write(&mut session.replies, &served, &cancelled);
    Ok(Flow::Next)
}

pub(in crate::command) fn renew(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Decide)?;
    let ttl = arguments.get(4).unwrap_or_default();
    let ttl = Duration::from_millis(natural(ttl, 1..=i64::MAX, "ttl_ms")?);
    let expires_at = served.renew(key(arguments), lease(arguments)?, ttl)?;
    session.replies.map(1);
    session.replies.text("expires_at_us");
    session.replies.integer(expires_at.as_micros());
    Ok(Flow::Next)
}

/// Whether it had expired, whether it was said before, and what was used.
fn write(replies: &mut Replies, served: &Served, settlement: &Settlement) {
    replies.map(3);
    replies.text("expired");
    replies.boolean(settlement.expired());
    replies.text("repeated");
    replies.boolean(settlement.repeated());
    replies.text("used");
    replies.map(settlement.usages().count());
    for (name, usage) in settlement.usages() {
        replies.text(name);
        replies.map(2);
        replies.text("taken");
        facts::amount(replies, unit(served, name), usage.taken);
        replies.text("used");
        facts::amount(replies, unit(served, name), usage.used);
    }
}
