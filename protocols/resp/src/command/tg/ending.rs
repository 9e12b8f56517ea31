//! SETTLE, RELEASE, CANCEL, RENEW, ADJUST: what becomes of a lease.

use std::time::Duration;

use tidegate::{Key, LeaseId, Outcome};
use tidegate_service::{Finish, Finished, Report, Scope, Served, Told};

use super::ask::{Named, once};
use super::facts;
use super::named::{amount, key, lease, policy_for};
use crate::command::number::{ANY, natural};
use crate::command::shape::Flow;
use crate::error::{Fault, quoted};
use crate::parse::Arguments;
use crate::reply::Replies;
use crate::session::Session;

pub(in crate::command) async fn settle(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let lease = lease(arguments)?;
    let served = policy_for(session, arguments, Scope::Decide)?;
    let said = Said::read(arguments, &served, true)?;
    let how = Finish::Settle(&said.used);
    end(session, &served, (key(arguments), lease), how, &said.report).await
}

pub(in crate::command) async fn release(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let lease = lease(arguments)?;
    let served = policy_for(session, arguments, Scope::Decide)?;
    let said = Said::read(arguments, &served, false)?;
    let of = (key(arguments), lease);
    end(session, &served, of, Finish::Release, &said.report).await
}

pub(in crate::command) async fn cancel(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let lease = lease(arguments)?;
    let served = policy_for(session, arguments, Scope::Decide)?;
    let said = Said::read(arguments, &served, false)?;
    let of = (key(arguments), lease);
    end(session, &served, of, Finish::Cancel, &said.report).await
}

async fn end(
    session: &mut Session,
    served: &Served,
    (key, lease): (Key<'_>, LeaseId),
    how: Finish<'_>,
    report: &Report,
) -> Result<Flow, Fault> {
    let finished = served.finish(key, lease, how, report).await?;
    write(&mut session.replies, served, &finished);
    Ok(Flow::Next)
}

/// `[USED limit n]... [OUTCOME word] [COOLDOWN ms]`
#[derive(Default)]
struct Said<'a> {
    used: Named<'a>,
    report: Report,
}

impl<'a> Said<'a> {
    fn read(arguments: Arguments<'a>, served: &Served, settles: bool) -> Result<Self, Fault> {
        let mut said = Self::default();
        let mut outcome = None;
        let mut words = arguments.from(4);
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
            if settles && word.eq_ignore_ascii_case(b"USED") {
                said.used.push(amount(served, next()?, next()?)?);
            } else if word.eq_ignore_ascii_case(b"OUTCOME") {
                once(&mut outcome, outcome_of(next()?)?, "OUTCOME")?;
            } else if word.eq_ignore_ascii_case(b"COOLDOWN") {
                let ms = natural(next()?, ANY, "COOLDOWN")?;
                let length = Duration::from_millis(ms);
                once(&mut said.report.cool_down, length, "COOLDOWN")?;
            } else {
                return Err(Fault::Syntax(quoted(word)));
            }
        }
        said.report.outcome = outcome.unwrap_or_default();
        Ok(said)
    }
}

fn outcome_of(word: &[u8]) -> Result<Outcome, Fault> {
    match word.to_ascii_lowercase().as_slice() {
        b"succeeded" => Ok(Outcome::Succeeded),
        b"ignored" => Ok(Outcome::Ignored),
        b"dropped" => Ok(Outcome::Dropped),
        _ => Err(Fault::Syntax(quoted(word))),
    }
}

pub(in crate::command) async fn renew(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let lease = lease(arguments)?;
    let served = policy_for(session, arguments, Scope::Decide)?;
    let ttl = arguments.get(4).unwrap_or_default();
    let ttl = Duration::from_millis(natural(ttl, ANY, "ttl_ms")?);
    let expires_at = served.renew(key(arguments), lease, ttl).await?;
    session.replies.map(1);
    session.replies.text("expires_at_us");
    session.replies.integer(expires_at.as_micros());
    Ok(Flow::Next)
}

/// `[AMOUNT limit n]... [OVERDRAW]`
pub(in crate::command) async fn adjust(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let lease = lease(arguments)?;
    let served = policy_for(session, arguments, Scope::Decide)?;
    let (mut to, mut overdraw) = (Named::new(), None);
    let mut words = arguments.from(4);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
        if word.eq_ignore_ascii_case(b"AMOUNT") {
            to.push(amount(&served, next()?, next()?)?);
        } else if word.eq_ignore_ascii_case(b"OVERDRAW") {
            once(&mut overdraw, (), "OVERDRAW")?;
        } else {
            return Err(Fault::Syntax(quoted(word)));
        }
    }
    let key = key(arguments);
    let decision = served.adjust(key, lease, &to, overdraw.is_some()).await?;
    session.replies.map(facts::DECISION_FACTS);
    facts::told(&mut session.replies, &Told::decided(&served, &decision));
    Ok(Flow::Next)
}

/// Whether it had expired, whether it was said before, what was used, and the
/// member of a pool, with the end of its cool-down.
pub(super) fn write(replies: &mut Replies, served: &Served, finished: &Finished) {
    let settlement = &finished.settlement;
    replies.map(5);
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
        facts::amount(replies, served.unit(name), usage.taken);
        replies.text("used");
        facts::amount(replies, served.unit(name), usage.used);
    }
    replies.text("member");
    facts::optional_text(replies, finished.member.as_deref());
    replies.text("cooling_until_us");
    facts::optional_instant(replies, finished.cooling_until);
}
