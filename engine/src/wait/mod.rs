//! Who waits, in order, and what wakes them.
//!
//! | room | holds |
//! |---|---|
//! | `line` | those who wait under one root: served in order, by a release or an exact timer |
//! | `waiter` | one who waits, and the future that does |
//! | `lines` | the lines of a set, by root; the bound on all of them |
//! | `far` | who waits in a line that the store keeps, for all processes |
//! | `crowd` | those of this process who do |
//! | `pooled` | one who stands in the lines of several sets at once |
//! | `block` | a future run to its end on a thread |
//!
//! Nobody overtakes: an ask that meets a line goes to its end, even if it is
//! only a try (which then leaves again). Priority counts as having come
//! earlier, a second a step, so that the urgent go first and nobody starves.

mod block;
mod crowd;
mod far;
mod line;
mod lines;
mod pooled;
mod waiter;

use std::sync::Arc;

use tidegate_contract::{self as contract, Detail, OwnedKey};
use tidegate_core::{Span, Timestamp, Verdict};

use crate::ask::Ask;
use crate::decision::{Admission, Decision};
use crate::error::Error;
use crate::lease::Lease;
use crate::set::{Inner, Wanted, lease_length};

pub(crate) use block::{block_on, block_on_within};
pub(crate) use crowd::Crowd;
pub(crate) use far::acquire as acquire_far;
pub(crate) use lines::Lines;
pub(crate) use pooled::{Race, stand, try_member};
pub(crate) use waiter::Turn;
use waiter::{Aim, Answer, Manner, Waiter};

/// How an acquire begins: decided at once, or in line.
pub(crate) enum Begun {
    Decided(Admission),
    Waiting(Turn),
}

/// Takes a lease now or not at all.
pub(crate) fn try_acquire(set: &Arc<Inner>, key: &[u8], ask: &Ask<'_>) -> Result<Admission, Error> {
    let decision = decide_now(set, key, ask)?;
    set.counters.decided(decision.admitted());
    Ok(admission(set, key, decision))
}

/// What the set says now, behind whoever waits; not counted.
fn decide_now(set: &Arc<Inner>, key: &[u8], ask: &Ask<'_>) -> Result<Decision, Error> {
    if set.has_waiters() {
        return match repeated(set, key, ask)? {
            Some(decision) => Ok(decision),
            None => in_line(set, key, ask, aim(ask)?),
        };
    }
    offer(set, key, ask)
}

/// The lease that a retry was given before, if it is held: it waits for nobody.
fn repeated(set: &Arc<Inner>, key: &[u8], ask: &Ask<'_>) -> Result<Option<Decision>, Error> {
    let Some(ask) = ask.idempotency else {
        return Ok(None);
    };
    set.with_view_at(key, |view, path| {
        let granted = set.table.find_repeated(path, ask, set.clock.now())?;
        Ok(granted.map(|granted| {
            let mut answer = contract::Decision::bare(Verdict::Admit, None);
            answer.lease = Some(granted);
            Decision::new(answer, Arc::clone(view))
        }))
    })
}

/// Takes a lease now, or joins the line.
pub(crate) fn acquire(set: &Arc<Inner>, key: &[u8], ask: &Ask<'_>) -> Result<Begun, Error> {
    if !ask.is_patient() {
        return try_acquire(set, key, ask).map(Begun::Decided);
    }
    let decision = match set.has_waiters() {
        true => repeated(set, key, ask)?,
        false => Some(offer(set, key, ask)?),
    };
    if let Some(decision) = decision.filter(Decision::admitted) {
        set.counters.decided(true);
        return Ok(Begun::Decided(admission(set, key, decision)));
    }
    join(
        set,
        ask,
        Waiter::new(set, key, ask, aim(ask)?, Manner::Staying)?,
    )
    .map(Begun::Waiting)
}

/// Puts `waiter` in line, to the ask's deadline.
fn join(set: &Arc<Inner>, ask: &Ask<'_>, waiter: Arc<Waiter>) -> Result<Turn, Error> {
    let deadline = ask.within.map(|longest| waiter.since + Span::from(longest));
    set.lines.join(&waiter, deadline)?;
    Ok(Turn::new(Arc::clone(set), waiter))
}

/// A charge without lease, behind whoever waits.
pub(crate) fn check_in_line(
    set: &Arc<Inner>,
    key: &[u8],
    ask: &Ask<'_>,
) -> Result<Decision, Error> {
    set.with_view_at(key, |view, _| view.check_unheld(&view.amounts(ask)?))?;
    in_line(set, key, ask, Aim::Charge)
}

fn aim(ask: &Ask<'_>) -> Result<Aim, Error> {
    Ok(Aim::Lease {
        ttl: ask.ttl.map(lease_length).transpose()?,
        idempotency: ask.idempotency.map(Into::into),
    })
}

/// Joins the line, is served if it is its turn, and leaves.
fn in_line(set: &Arc<Inner>, key: &[u8], ask: &Ask<'_>, aim: Aim) -> Result<Decision, Error> {
    let waiter = Waiter::new(set, key, ask, aim, Manner::Passing)?;
    set.lines.pass_through(&waiter)
}

/// Takes a lease if it fits; not counted yet.
fn offer(set: &Arc<Inner>, key: &[u8], ask: &Ask<'_>) -> Result<Decision, Error> {
    set.with_view_at(key, |view, path| {
        let amounts = view.amounts(ask)?;
        let wanted = Wanted::Lease {
            ttl: view.ttl(ask)?,
            idempotency: ask.idempotency,
        };
        let answer = set.take(view, path, &amounts, wanted, set.clock.now())?;
        Ok(Decision::new(answer, Arc::clone(view)))
    })
}

/// The decision as an admission: with the lease, if one was given.
fn admission(set: &Arc<Inner>, key: &[u8], decision: Decision) -> Admission {
    match decision.answer().lease {
        Some(granted) => {
            let (set, key) = (Arc::clone(set), OwnedKey::new(key));
            Admission::Granted(Lease::new(set, key, granted, decision.shadowed()))
        }
        None => Admission::Refused(decision),
    }
}

/// What one who waits would be told now: not yet. If only because others are
/// first, then not before `turn`, the earliest turn in its line.
fn not_yet(set: &Arc<Inner>, waiter: &Waiter, turn: Option<Timestamp>) -> Answer {
    set.with_view_at(waiter.key.bytes(), |view, path| {
        let amounts = waiter.amounts(view);
        let now = set.clock.now();
        let verb = contract::Verb::Peek { amounts: &amounts };
        let mut answer = set.decide(view, path, verb, now)?;
        let cooling = waiter.cooling(now);
        if answer.verdict.admitted() && cooling.is_none() {
            let soonest = now + Span::from_micros(1);
            answer.verdict = Verdict::NotUntil(turn.map_or(soonest, |turn| turn.max(soonest)));
        }
        let decision = Decision::new(answer, Arc::clone(view));
        Ok(match cooling {
            Some(until) => decision.not_before(until),
            None => decision,
        })
    })
}

/// The detail of a charge that is made in line.
const CHARGE: Wanted<'static> = Wanted::Charge(Detail::Always);
