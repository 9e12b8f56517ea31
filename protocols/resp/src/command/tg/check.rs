//! CHECK, DEBIT, PEEK, FORECAST: questions without a lease.

use tidegate_service::{Answer, Outlook, Scope, Served, Told};

use super::ask::{Asked, For};
use super::facts;
use super::named::{key, policy_for};
use crate::command::shape::Flow;
use crate::error::Fault;
use crate::parse::Arguments;
use crate::reply::Replies;
use crate::session::Session;

pub(in crate::command) async fn check(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy_for(session, arguments, Scope::Decide)?;
    let asked = Asked::read(arguments, &served, For::Charge)?;
    let answer = served.check(key(arguments), asked.ask()).await?;
    Ok(charged(session, &served, &answer))
}

pub(in crate::command) async fn debit(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy_for(session, arguments, Scope::Decide)?;
    let asked = Asked::read(arguments, &served, For::Member)?;
    let (key, ask) = (key(arguments), asked.ask());
    let answer = served.debit_at(asked.member, key, ask).await?;
    Ok(charged(session, &served, &answer))
}

fn charged(session: &mut Session, served: &Served, answer: &Answer) -> Flow {
    let replies = &mut session.replies;
    replies.map(facts::DECISION_FACTS);
    facts::told(replies, &Told::answered(served, answer));
    Flow::Next
}

pub(in crate::command) async fn peek(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy_for(session, arguments, Scope::Observe)?;
    let asked = Asked::read(arguments, &served, For::Member)?;
    let decision = served
        .peek_at(asked.member, key(arguments), asked.ask())
        .await?;
    session.replies.map(facts::DECISION_FACTS);
    facts::told(&mut session.replies, &Told::decided(&served, &decision));
    Ok(Flow::Next)
}

/// By limit: how many such requests fit, when one does, and the standing. For a pool
/// as a whole, that by member.
pub(in crate::command) async fn forecast(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy_for(session, arguments, Scope::Observe)?;
    let asked = Asked::read(arguments, &served, For::Member)?;
    let outlooks = served
        .forecast(asked.member, key(arguments), asked.ask())
        .await?;
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
        facts::verdict(replies, forecast.verdict, || now);
        facts::stands(replies, served.unit(name), &forecast.standing, || now);
    }
}
