//! CHECK, DEBIT, PEEK, FORECAST: questions without a lease.

use tidegate::Ask;
use tidegate::gate::{Answer, GateError, Scope, Served};

use super::ask::{Asked, For};
use super::facts;
use super::named::{key, policy, unit};
use crate::command::dispatch::Flow;
use crate::fault::Fault;
use crate::parse::Arguments;
use crate::session::Session;

pub(in crate::command) fn check(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    charge(session, arguments, |served, ask| {
        served.check(key(arguments), ask)
    })
}

pub(in crate::command) fn debit(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    charge(session, arguments, |served, ask| {
        served.debit(key(arguments), ask)
    })
}

fn charge(
    session: &mut Session,
    arguments: Arguments<'_>,
    verb: impl FnOnce(&Served, Ask<'_>) -> Result<Answer, GateError>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Decide)?;
    let asked = Asked::read(arguments, &served, For::Charge)?;
    let answer = verb(&served, asked.ask())?;
    let replies = &mut session.replies;
    replies.map(facts::DECISION_FACTS);
    match &answer {
        Answer::Decided(decision) => facts::decision(replies, &served, decision),
        Answer::Degraded(_) => facts::admitted(replies, &served, true),
    }
    Ok(Flow::Next)
}

pub(in crate::command) fn peek(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Observe)?;
    let asked = Asked::read(arguments, &served, For::Charge)?;
    let decision = served.peek(key(arguments), asked.ask())?;
    session.replies.map(facts::DECISION_FACTS);
    facts::decision(&mut session.replies, &served, &decision);
    Ok(Flow::Next)
}

/// By limit: how many such asks fit, when one does, and the standing.
pub(in crate::command) fn forecast(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let served = policy(session, arguments, Scope::Observe)?;
    let asked = Asked::read(arguments, &served, For::Charge)?;
    let forecasts = served.forecast(key(arguments), asked.ask())?;
    let (replies, now) = (&mut session.replies, served.now());
    replies.map(forecasts.len());
    for (name, forecast) in &forecasts {
        replies.text(name);
        replies.map(7);
        replies.text("spendable");
        replies.count(forecast.spendable);
        facts::verdict(replies, forecast.verdict, now);
        facts::stands(replies, unit(&served, name), &forecast.standing, now);
    }
    Ok(Flow::Next)
}
