//! The words of an ask.

use std::time::Duration;

use smallvec::SmallVec;
use tidegate::Ask;
use tidegate_service::{Served, bounds};

use super::named::{amount, number, text};
use crate::command::number::{ANY, natural};
use crate::error::{Fault, quoted};
use crate::parse::Arguments;

/// Amounts by limit; a few, as a rule.
pub(super) type Named<'a> = SmallVec<[(&'a str, u64); 8]>;

/// What was asked, word by word.
#[derive(Debug, Default)]
pub(super) struct Asked<'a> {
    pub(super) named: Named<'a>,
    pub(super) idempotency: Option<&'a [u8]>,
    /// The member of a pool that is meant.
    pub(super) member: Option<&'a str>,
    pub(super) manner: Manner,
}

/// The words that are numbers: what is kept of them outlives the request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    cost: Option<u64>,
    wait_ms: Option<u64>,
    for_refunds: bool,
    ttl_ms: Option<u64>,
    priority: Option<u8>,
}

/// What is asked for: not all words make sense with everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum For {
    Charge,
    /// A charge or a question that may be about one member of a pool.
    Member,
    Lease,
}

impl<'a> Asked<'a> {
    /// Reads the words behind policy and key.
    pub(super) fn read(
        arguments: Arguments<'a>,
        served: &Served,
        purpose: For,
    ) -> Result<Self, Fault> {
        let (mut asked, mut cost) = (Self::default(), None);
        let mut words = arguments.from(3);
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or_else(|| Fault::Syntax(quoted(word)));
            if word.eq_ignore_ascii_case(b"AMOUNT") {
                asked.named.push(amount(served, next()?, next()?)?);
            } else if word.eq_ignore_ascii_case(b"COST") {
                once(&mut cost, number(next()?, "COST")?, "COST")?;
            } else if purpose == For::Member && word.eq_ignore_ascii_case(b"MEMBER") {
                let member = text(next()?, "the member's name")?;
                once(&mut asked.member, member, "MEMBER")?;
            } else if purpose == For::Lease && word.eq_ignore_ascii_case(b"REFUNDS") {
                asked.manner.for_refunds = true;
            } else if purpose == For::Lease {
                asked.read_lease_word(word, next()?)?;
            } else {
                return Err(Fault::Syntax(quoted(word)));
            }
        }
        if let Some(cost) = cost {
            asked.manner.cost = Some(served.cost(cost, &asked.named)?);
        }
        Ok(asked)
    }

    fn read_lease_word(&mut self, word: &[u8], value: &'a [u8]) -> Result<(), Fault> {
        let manner = &mut self.manner;
        match word.to_ascii_uppercase().as_slice() {
            b"WAIT" => {
                let wait = natural(value, ANY, "WAIT")?;
                once(&mut manner.wait_ms, wait, "WAIT")
            }
            b"TTL" => {
                let ttl = natural(value, ANY, "TTL")?;
                once(&mut manner.ttl_ms, ttl, "TTL")
            }
            b"PRIORITY" => {
                let priority = bounds::priority(natural(value, ANY, "PRIORITY")?)?;
                once(&mut manner.priority, priority, "PRIORITY")
            }
            b"IDEMPOTENCY" => once(&mut self.idempotency, value, "IDEMPOTENCY"),
            _ => Err(Fault::Syntax(quoted(word))),
        }
    }

    /// As the engine is asked.
    pub(super) fn ask(&self) -> Ask<'_> {
        let ask = self.manner.of(Ask::named(&self.named));
        match self.idempotency {
            Some(key) => ask.idempotency(key),
            None => ask,
        }
    }
}

impl Manner {
    /// `ask`, asked in this manner.
    pub(super) fn of<'a>(&self, mut ask: Ask<'a>) -> Ask<'a> {
        if let Some(cost) = self.cost {
            ask = ask.cost(cost);
        }
        if let Some(ttl) = self.ttl_ms {
            ask = ask.ttl(Duration::from_millis(ttl));
        }
        if self.for_refunds {
            ask = ask.wait_for_refunds();
        }
        ask.priority(self.priority.unwrap_or(0))
            .within(Duration::from_millis(self.wait_ms.unwrap_or(0)))
    }
}

/// Says a word that may be said once.
pub(super) fn once<T>(place: &mut Option<T>, value: T, word: &'static str) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::SaidTwice(word)),
    }
}
