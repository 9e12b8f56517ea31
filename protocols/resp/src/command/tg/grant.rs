//! GRANT, RETURN: units that a client spends without asking.

use tidegate_service::{Call, GrantTerms, Question, Uses, bounds};

use super::named::{amount, number, of_lease, once, policy, whose};
use crate::command::number::{ANY, natural};
use crate::error::{Fault, quoted};
use crate::parse::Arguments;

type Parsed<'a> = Result<Call<'a>, Fault>;

/// `[COST n] [AMOUNT limit n]... [LEAST limit n]... [HOLD ms] [LEASE id] [ENTITY]`
pub(in crate::command) fn grant(arguments: Arguments<'_>) -> Parsed<'_> {
    let mut question = Question {
        policy: policy(arguments)?,
        ..Question::default()
    };
    let (mut terms, mut is_entity) = (GrantTerms::default(), None);
    let mut words = arguments.from(3);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
        match word.to_ascii_uppercase().as_slice() {
            b"AMOUNT" => question.amounts.push(amount(next()?, next()?)?),
            b"LEAST" => terms.least.push(amount(next()?, next()?)?),
            b"COST" => once(&mut question.cost, number(next()?, "COST")?, "COST")?,
            b"HOLD" => once(&mut terms.hold_ms, natural(next()?, ANY, "HOLD")?, "HOLD")?,
            b"LEASE" => once(&mut terms.lease, bounds::lease(next()?)?, "LEASE")?,
            b"ENTITY" => once(&mut is_entity, (), "ENTITY")?,
            _ => return Err(Fault::Syntax(quoted(word))),
        }
    }
    question.whose = whose(arguments, is_entity)?;
    Ok(Call::Grant(question, Box::new(terms)))
}

/// `[COST n] [USED limit n]... [ENTITY]`
pub(in crate::command) fn return_(arguments: Arguments<'_>) -> Parsed<'_> {
    let (mut used, mut is_entity) = (Uses::default(), None);
    let mut words = arguments.from(4);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
        match word.to_ascii_uppercase().as_slice() {
            b"USED" => used.amounts.push(amount(next()?, next()?)?),
            b"COST" => once(&mut used.cost, number(next()?, "COST")?, "COST")?,
            b"ENTITY" => once(&mut is_entity, (), "ENTITY")?,
            _ => return Err(Fault::Syntax(quoted(word))),
        }
    }
    Ok(Call::Return(of_lease(arguments, is_entity)?, used))
}
