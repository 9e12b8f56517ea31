//! SETTLE, RELEASE, CANCEL, RENEW, ADJUST, REVOKE: what becomes of a lease.

use std::time::Duration;

use tidegate::Outcome;
use tidegate_service::{Call, LeaseHandle, Report, Uses};

use super::named::{amount, key, number, of_lease, policy};
use super::request::once;
use crate::command::number::{ANY, natural};
use crate::error::{Fault, quoted};
use crate::parse::Arguments;

type Parsed<'a> = Result<Call<'a>, Fault>;

pub(in crate::command) fn settle(arguments: Arguments<'_>) -> Parsed<'_> {
    let of = of_lease(arguments)?;
    let (report, used) = read(arguments, true)?;
    Ok(Call::Settle(of, report, used))
}

pub(in crate::command) fn release(arguments: Arguments<'_>) -> Parsed<'_> {
    let of = of_lease(arguments)?;
    Ok(Call::Release(of, read(arguments, false)?.0))
}

pub(in crate::command) fn cancel(arguments: Arguments<'_>) -> Parsed<'_> {
    let of = of_lease(arguments)?;
    Ok(Call::Cancel(of, read(arguments, false)?.0))
}

/// `[COST n] [USED limit n]... [OUTCOME word] [COOLDOWN ms]`
fn read(arguments: Arguments<'_>, settles: bool) -> Result<(Report, Uses<'_>), Fault> {
    let (mut report, mut used, mut outcome) = (Report::default(), Uses::default(), None);
    let mut words = arguments.from(4);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
        if settles && word.eq_ignore_ascii_case(b"USED") {
            used.amounts.push(amount(next()?, next()?)?);
        } else if settles && word.eq_ignore_ascii_case(b"COST") {
            once(&mut used.cost, number(next()?, "COST")?, "COST")?;
        } else if word.eq_ignore_ascii_case(b"OUTCOME") {
            once(&mut outcome, outcome_of(next()?)?, "OUTCOME")?;
        } else if word.eq_ignore_ascii_case(b"COOLDOWN") {
            let ms = natural(next()?, ANY, "COOLDOWN")?;
            let length = Duration::from_millis(ms);
            once(&mut report.cool_down, length, "COOLDOWN")?;
        } else {
            return Err(Fault::Syntax(quoted(word)));
        }
    }
    report.outcome = outcome.unwrap_or_default();
    Ok((report, used))
}

fn outcome_of(word: &[u8]) -> Result<Outcome, Fault> {
    match word.to_ascii_lowercase().as_slice() {
        b"succeeded" => Ok(Outcome::Succeeded),
        b"ignored" => Ok(Outcome::Ignored),
        b"dropped" => Ok(Outcome::Dropped),
        _ => Err(Fault::Syntax(quoted(word))),
    }
}

pub(in crate::command) fn renew(arguments: Arguments<'_>) -> Parsed<'_> {
    let of = of_lease(arguments)?;
    let ttl = arguments.get(4);
    let ttl = ttl.map(|ttl| natural(ttl, ANY, "ttl_ms")).transpose()?;
    Ok(Call::Renew(of, ttl))
}

/// `[COST n] [AMOUNT limit n]... [OVERDRAW]`
pub(in crate::command) fn adjust(arguments: Arguments<'_>) -> Parsed<'_> {
    let of = of_lease(arguments)?;
    let (mut to, mut overdraw) = (Uses::default(), None);
    let mut words = arguments.from(4);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
        if word.eq_ignore_ascii_case(b"AMOUNT") {
            to.amounts.push(amount(next()?, next()?)?);
        } else if word.eq_ignore_ascii_case(b"COST") {
            once(&mut to.cost, number(next()?, "COST")?, "COST")?;
        } else if word.eq_ignore_ascii_case(b"OVERDRAW") {
            once(&mut overdraw, (), "OVERDRAW")?;
        } else {
            return Err(Fault::Syntax(quoted(word)));
        }
    }
    Ok(Call::Adjust(of, to, overdraw.is_some()))
}

/// Ends the lease of a handle, as its holder's release would.
pub(in crate::command) fn revoke(arguments: Arguments<'_>) -> Parsed<'_> {
    let handle = LeaseHandle::read(arguments.get(3).unwrap_or_default())?;
    Ok(Call::Revoke(
        policy(arguments)?,
        key(arguments).into(),
        handle,
    ))
}
