//! SETTLE, RELEASE, CANCEL, RENEW, ADJUST, REVOKE: what becomes of a lease.

use std::time::Duration;

use tidegate::Outcome;
use tidegate_service::{Call, LeaseHandle, OfLease, Report, Uses};

use super::named::{amount, entity_alone, number, of_lease, once, policy, whose};
use crate::command::number::{ANY, natural};
use crate::error::{Fault, quoted};
use crate::parse::Arguments;

type Parsed<'a> = Result<Call<'a>, Fault>;

pub(in crate::command) fn settle(arguments: Arguments<'_>) -> Parsed<'_> {
    let (of, report, used) = read(arguments, true)?;
    Ok(Call::Settle(of, report, used))
}

pub(in crate::command) fn release(arguments: Arguments<'_>) -> Parsed<'_> {
    let (of, report, _) = read(arguments, false)?;
    Ok(Call::Release(of, report))
}

pub(in crate::command) fn cancel(arguments: Arguments<'_>) -> Parsed<'_> {
    let (of, report, _) = read(arguments, false)?;
    Ok(Call::Cancel(of, report))
}

/// Which lease, and `[COST n] [USED limit n]... [OUTCOME word] [COOLDOWN ms] [ENTITY]`
fn read(arguments: Arguments<'_>, settles: bool) -> Result<(OfLease<'_>, Report, Uses<'_>), Fault> {
    let (mut report, mut used) = (Report::default(), Uses::default());
    let (mut outcome, mut is_entity) = (None, None);
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
        } else if word.eq_ignore_ascii_case(b"ENTITY") {
            once(&mut is_entity, (), "ENTITY")?;
        } else {
            return Err(Fault::Syntax(quoted(word)));
        }
    }
    report.outcome = outcome.unwrap_or_default();
    Ok((of_lease(arguments, is_entity)?, report, used))
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
    let ttl = arguments.get(4);
    let ttl = ttl.filter(|word| !word.eq_ignore_ascii_case(b"ENTITY"));
    let is_entity = entity_alone(arguments, 4 + usize::from(ttl.is_some()))?;
    let of = of_lease(arguments, is_entity)?;
    let ttl = ttl.map(|ttl| natural(ttl, ANY, "ttl_ms")).transpose()?;
    Ok(Call::Renew(of, ttl))
}

/// `[COST n] [AMOUNT limit n]... [OVERDRAW] [ENTITY]`
pub(in crate::command) fn adjust(arguments: Arguments<'_>) -> Parsed<'_> {
    let (mut to, mut overdraw, mut is_entity) = (Uses::default(), None, None);
    let mut words = arguments.from(4);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
        if word.eq_ignore_ascii_case(b"AMOUNT") {
            to.amounts.push(amount(next()?, next()?)?);
        } else if word.eq_ignore_ascii_case(b"COST") {
            once(&mut to.cost, number(next()?, "COST")?, "COST")?;
        } else if word.eq_ignore_ascii_case(b"OVERDRAW") {
            once(&mut overdraw, (), "OVERDRAW")?;
        } else if word.eq_ignore_ascii_case(b"ENTITY") {
            once(&mut is_entity, (), "ENTITY")?;
        } else {
            return Err(Fault::Syntax(quoted(word)));
        }
    }
    let of = of_lease(arguments, is_entity)?;
    Ok(Call::Adjust(of, to, overdraw.is_some()))
}

/// Ends the lease of a handle, as its holder's release would.
pub(in crate::command) fn revoke(arguments: Arguments<'_>) -> Parsed<'_> {
    let handle = LeaseHandle::read(arguments.get(3).unwrap_or_default())?;
    let whose = whose(arguments, entity_alone(arguments, 4)?)?;
    Ok(Call::Revoke(policy(arguments)?, whose, handle))
}
