//! CHECK, DEBIT, PEEK, FORECAST, ACQUIRE: what is asked of a policy's limits.

use tidegate_service::{Call, Question, Terms};

use super::named::{amount, number, once, policy, text, whose};
use crate::command::number::{ANY, natural};
use crate::error::{Fault, quoted};
use crate::parse::Arguments;

type Parsed<'a> = Result<Call<'a>, Fault>;

pub(in crate::command) fn check(arguments: Arguments<'_>) -> Parsed<'_> {
    Ok(Call::Check(read(arguments, For::Charge)?.0))
}

pub(in crate::command) fn debit(arguments: Arguments<'_>) -> Parsed<'_> {
    Ok(Call::Debit(read(arguments, For::Member)?.0))
}

pub(in crate::command) fn peek(arguments: Arguments<'_>) -> Parsed<'_> {
    Ok(Call::Peek(read(arguments, For::Member)?.0))
}

pub(in crate::command) fn forecast(arguments: Arguments<'_>) -> Parsed<'_> {
    Ok(Call::Forecast(read(arguments, For::Member)?.0))
}

pub(in crate::command) fn acquire(arguments: Arguments<'_>) -> Parsed<'_> {
    let (question, terms) = read(arguments, For::Lease)?;
    Ok(Call::Acquire(question, terms))
}

/// What is asked for: not all words make sense with everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum For {
    Charge,
    /// A charge or a question that may be about one member of a pool.
    Member,
    Lease,
}

/// Reads the words behind policy and key.
#[inline]
fn read<'a>(arguments: Arguments<'a>, purpose: For) -> Result<(Question<'a>, Terms<'a>), Fault> {
    let mut question = Question {
        policy: policy(arguments)?,
        ..Question::default()
    };
    let mut options = TermOptions::default();
    let mut is_entity = None;
    let mut words = arguments.from(3);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
        if word.eq_ignore_ascii_case(b"AMOUNT") {
            question.amounts.push(amount(next()?, next()?)?);
        } else if word.eq_ignore_ascii_case(b"COST") {
            once(&mut question.cost, number(next()?, "COST")?, "COST")?;
        } else if word.eq_ignore_ascii_case(b"ENTITY") {
            once(&mut is_entity, (), "ENTITY")?;
        } else if purpose == For::Member && word.eq_ignore_ascii_case(b"MEMBER") {
            let member = text(next()?, "the member's name")?;
            once(&mut question.member, member, "MEMBER")?;
        } else if purpose == For::Lease && word.eq_ignore_ascii_case(b"REFUNDS") {
            options.for_refunds = true;
        } else if purpose == For::Lease {
            options.read(word, next()?)?;
        } else {
            return Err(Fault::Syntax(quoted(word)));
        }
    }
    question.whose = whose(arguments, is_entity)?;
    let terms = Terms {
        wait_ms: options.wait_ms.unwrap_or(0),
        wait_for_refunds: options.for_refunds,
        ttl_ms: options.ttl_ms,
        priority: options.priority.unwrap_or(0),
        idempotency: options.idempotency,
        standings: false,
        passed_over: &[],
    };
    Ok((question, terms))
}

/// The terms of a lease, each of which may be said once.
#[derive(Default)]
struct TermOptions<'a> {
    wait_ms: Option<u64>,
    for_refunds: bool,
    ttl_ms: Option<u64>,
    priority: Option<u64>,
    idempotency: Option<&'a [u8]>,
}

impl<'a> TermOptions<'a> {
    fn read(&mut self, word: &[u8], value: &'a [u8]) -> Result<(), Fault> {
        match word.to_ascii_uppercase().as_slice() {
            b"WAIT" => once(&mut self.wait_ms, natural(value, ANY, "WAIT")?, "WAIT"),
            b"TTL" => once(&mut self.ttl_ms, natural(value, ANY, "TTL")?, "TTL"),
            b"PRIORITY" => {
                let priority = natural(value, ANY, "PRIORITY")?;
                once(&mut self.priority, priority, "PRIORITY")
            }
            b"IDEMPOTENCY" => once(&mut self.idempotency, value, "IDEMPOTENCY"),
            _ => Err(Fault::Syntax(quoted(word))),
        }
    }
}
