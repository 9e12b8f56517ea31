//! CHECK, DEBIT, PEEK, FORECAST: questions without a lease.

use tidegate::gate::{Answer, GateError, Outlook, Scope, Served};

use super::ask::{Asked, For};
use super::facts;
use super::named::{key, policy, unit};
use crate::command::dispatch::Flow;
use crate::fault::Fault;
use crate::parse::Arguments;
use crate::reply::Replies;
use crate::session::Session;

pub(in crate::command) fn check(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    charge(session, arguments, For::Charge, |served, asked| {
        served.check(key(arguments), asked.ask())
    })
}

pub(in crate::command) fn debit(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    charge(session, arguments, For::Member, |served, asked| {
        served.debit_at(asked.member, key(arguments), asked.ask())
    })
}

fn charge(
    session: &mut Session,
    arguments: Arguments<'_>,
    purpose: For,
    verb: impl FnOnce(&Served, &Asked<'_>) -> Result<Answer, GateError>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Decide)?;
    let asked = Asked::read(arguments, &served, purpose)?;
    let answer = verb(&served, &asked)?;
    let replies = &mut session.replies;
    replies.map(facts::DECISION_FACTS);
    match &answer {
        Answer::Decided(decision) => facts::decision(replies, &served, decision),
        Answer::Degraded(_) => facts::blindly(replies, &served),
    }
    Ok(Flow::Next)
}

pub(in crate::command) fn peek(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Observe)?;
    let asked = Asked::read(arguments, &served, For::Member)?;
    let decision = served.peek_at(asked.member, key(arguments), asked.ask())?;
    session.replies.map(facts::DECISION_FACTS);
    facts::decision(&mut session.replies, &served, &decision);
    Ok(Flow::Next)
}

/// By limit: how many such asks fit, when one does, and the standing. For a pool
/// as a whole, that by member.
pub(in crate::command) fn forecast(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Observe)?;
    let asked = Asked::read(arguments, &served, For::Member)?;
    let outlooks = served.forecast(asked.member, key(arguments), asked.ask())?;
    let replies = &mut session.replies;
    if asked.member.is_some() || !served.policy().is_pool() {
        outlooks
            .iter()
            .for_each(|one| outlook(replies, &served, one));
        return Ok(Flow::Next);
    }
    replies.map(outlooks.len());
    for one in &outlooks {
        replies.text(one.member.as_deref().unwrap_or_default());
        outlook(replies, &served, one);
    }
    Ok(Flow::Next)
}

fn outlook(replies: &mut Replies, served: &Served, outlook: &Outlook) {
    let now = served.now();
    replies.map(outlook.limits.len());
    for (name, forecast) in &outlook.limits {
        replies.text(name);
        replies.map(7);
        replies.text("spendable");
        replies.count(forecast.spendable);
        facts::verdict(replies, forecast.verdict, now);
        facts::stands(replies, unit(served, name), &forecast.standing, now);
    }
}
