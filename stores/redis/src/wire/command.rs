//! A command, as the script reads it.

use std::sync::Arc;

use tidegate_store::core::{Amount, Bounds, Span, Timestamp};
use tidegate_store::{Detail, Ending, KeyCommand, KeyPath, Terms, Verb};

use super::instant;
use super::pack::Pack;
use super::plan::put_calendars;
use crate::options::Clock;

/// What is told of the rows: the levels of those that come after the path's,
/// from 0 on, what each row's key has for itself, and the limits
/// [with a capacity of the moment](super::plan::moved).
pub(crate) fn rows(others: &[usize], own: &[Option<Arc<[u8]>>], moved: &[u8]) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.array(others.len());
    for &level in others {
        pack.int(level as i64 + 1);
    }
    let own = if own.iter().any(Option::is_some) {
        own
    } else {
        &[]
    };
    pack.array(own.len());
    for limits in own {
        match limits {
            Some(limits) => pack.bytes(limits),
            None => pack.bool(false),
        };
    }
    [pack.done(), moved.to_vec()].concat()
}

/// Whether the row of `key` is more than "never seen". The rows of its path are
/// brought up to the plan by it, and nothing else is done.
pub(crate) fn look(
    key: &KeyPath<'_>,
    now: Timestamp,
    calendars: &[Option<Bounds>],
    clock: Clock,
) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.map(7);
    put_head(key, now, calendars, clock, &mut pack);
    pack.name("verb").name("look");
    pack.done()
}

/// The place in line that a request has, or had.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) id: u128,
    /// Where it hears that its turn may have come.
    pub(crate) channel: Arc<str>,
    /// How much earlier it counts as having come.
    pub(crate) ahead: Span,
    /// How long it is taken for alive.
    pub(crate) alive: Span,
}

/// As [`encode`], for a request that stands in line.
pub(crate) fn encode_in_line(command: &KeyCommand<'_>, clock: Clock, turn: &Turn) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.map(8 + pairs(&command.verb));
    let calendars = command.calendars;
    put_head(&command.key, command.now, calendars, clock, &mut pack);
    put_turn(turn, &mut pack);
    pack.name("verb");
    put_verb(&command.verb, &mut pack);
    pack.done()
}

/// The request leaves the line.
pub(crate) fn leave(key: &KeyPath<'_>, now: Timestamp, clock: Clock, turn: &Turn) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.map(8);
    put_head(key, now, &[], clock, &mut pack);
    put_turn(turn, &mut pack);
    pack.name("verb").name("leave");
    pack.done()
}

fn put_turn(turn: &Turn, pack: &mut Pack) {
    let micros = |span: Span| span.as_micros().min(1 << 53) as i64;
    pack.name("turn").map(4);
    pack.name("id").bytes(&turn.id.to_be_bytes());
    pack.name("channel").bytes(turn.channel.as_bytes());
    pack.name("ahead").int(micros(turn.ahead));
    pack.name("alive").int(micros(turn.alive));
}

pub(crate) fn encode(command: &KeyCommand<'_>, clock: Clock) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.map(7 + pairs(&command.verb));
    let calendars = command.calendars;
    put_head(&command.key, command.now, calendars, clock, &mut pack);
    pack.name("verb");
    put_verb(&command.verb, &mut pack);
    pack.done()
}

/// Everything but the verb: six pairs.
fn put_head(
    key: &KeyPath<'_>,
    now: Timestamp,
    calendars: &[Option<Bounds>],
    clock: Clock,
    pack: &mut Pack,
) {
    pack.name("clock").name(match clock {
        Clock::Server => "server",
        Clock::Caller => "caller",
    });
    pack.name("now").int(instant(now));
    pack.name("key").bytes(key.bytes());
    pack.name("root").int(key.root().len() as i64);
    pack.name("depth").int(key.depth() as i64);
    pack.name("calendars");
    put_calendars(calendars, pack);
}

/// How many pairs [`put_verb`] writes beside the verb's name.
const fn pairs(verb: &Verb<'_>) -> usize {
    match verb {
        Verb::Take { lease: None, .. } | Verb::Renew { .. } => 2,
        Verb::Take { .. } => 3,
        Verb::Debit { .. } | Verb::Peek { .. } => 1,
        Verb::End { ending, .. } => match ending {
            Ending::Settle(_) | Ending::Fail(_) => 4,
            Ending::Release | Ending::Cancel => 3,
        },
        Verb::Adjust { .. } => 4,
        Verb::Reset => 0,
    }
}

fn put_verb(verb: &Verb<'_>, pack: &mut Pack) {
    match *verb {
        Verb::Take {
            amounts,
            lease,
            detail,
        } => {
            pack.name(if lease.is_some() { "lease" } else { "take" });
            put_amounts(amounts, pack);
            put_detail(detail, pack);
            if let Some(terms) = lease {
                put_terms(&terms, pack);
            }
        }
        Verb::Debit { amounts } => put_amounts(amounts, pack.name("debit")),
        Verb::Peek { amounts } => put_amounts(amounts, pack.name("peek")),
        Verb::End {
            id,
            ending,
            remember,
        } => {
            pack.name("end");
            pack.name("id").bytes(&id.to_be_bytes());
            pack.name("remember").bool(remember);
            put_ending(ending, pack);
        }
        Verb::Renew { id, until } => {
            pack.name("renew");
            pack.name("id").bytes(&id.to_be_bytes());
            pack.name("expires_at").int(instant(until));
        }
        Verb::Adjust {
            id,
            to,
            overdraw,
            detail,
        } => {
            pack.name("adjust");
            pack.name("id").bytes(&id.to_be_bytes());
            put_uses(to, pack.name("to"));
            pack.name("overdraw").bool(overdraw);
            put_detail(detail, pack);
        }
        Verb::Reset => drop(pack.name("reset")),
    }
}

fn put_amounts(amounts: &[Amount], pack: &mut Pack) {
    pack.name("amounts").array(amounts.len());
    for &amount in amounts {
        pack.amount(amount);
    }
}

fn put_terms(terms: &Terms<'_>, pack: &mut Pack) {
    pack.name("lease")
        .map(3 + usize::from(terms.least.is_some()));
    pack.name("id").bytes(&terms.id.to_be_bytes());
    pack.name("expires_at").int(instant(terms.expires_at));
    pack.name("idempotency");
    match terms.idempotency {
        Some(idempotency) => pack.bytes(idempotency),
        None => pack.bool(false),
    };
    if let Some(least) = terms.least {
        pack.name("least").array(least.len());
        for &amount in least {
            pack.amount(amount);
        }
    }
}

fn put_ending(ending: Ending<'_>, pack: &mut Pack) {
    pack.name("ending");
    match ending {
        Ending::Settle(used) => {
            put_uses(used, pack.name("settle").name("used"));
        }
        Ending::Fail(back) => {
            pack.name("fail").name("back").array(back.len());
            for &back in back {
                pack.bool(back);
            }
        }
        Ending::Release => drop(pack.name("release")),
        Ending::Cancel => drop(pack.name("cancel")),
    }
}

/// `false` stands for none.
fn put_uses(uses: &[Option<Amount>], pack: &mut Pack) {
    pack.array(uses.len());
    for used in uses {
        match used {
            Some(amount) => drop(pack.amount(*amount)),
            None => drop(pack.bool(false)),
        }
    }
}

fn put_detail(detail: Detail, pack: &mut Pack) {
    pack.name("detail").int(match detail {
        Detail::Verdict => 0,
        Detail::OnRefusal => 1,
        Detail::Always => 2,
    });
}
