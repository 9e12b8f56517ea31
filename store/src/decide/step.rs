//! One step on rows: a part, a time, a state for each of the plan's limits that the key
//! reaches, and what they come to.

use std::iter::Zip;
use std::slice::{Iter, IterMut};

use smallvec::SmallVec;
use tidegate_core::{Amount, Composite, DecisionTime, Part, State};

use crate::command::{Detail, KeyCommand};
use crate::plan::{Plan, PlanLimit};
use crate::reply::Decision;

/// The states of one level's limits.
pub type Row = Box<[State]>;

pub(super) type Parts<'a> = SmallVec<[Part<'a>; 4]>;

/// A row in which nothing was ever seen.
#[must_use]
pub fn fresh_row(plan: &Plan, level: usize) -> Row {
    plan.range(level).map(|_| State::Fresh).collect()
}

/// Whether an expired lease of this plan gives anything back by itself.
#[must_use]
pub fn refunds_on_expiry(plan: &Plan) -> bool {
    plan.limits().iter().any(|limit| limit.refund_on_expiry)
}

/// One part for each of the plan's limits that the key reaches, in order.
pub(super) fn parts<'a>(
    command: &'a KeyCommand<'_>,
    rows: &'a mut [Row],
    amounts: &[Amount],
) -> Parts<'a> {
    let states = rows.iter_mut().flat_map(|row| row.iter_mut());
    let limits = command.plan.limits().iter().enumerate();
    let part = |((position, limit), state): ((usize, &'a PlanLimit), &'a mut State)| {
        let amount = amounts.get(position).copied().unwrap_or(0);
        let mut part = Part::new(&limit.rule, state, amount, decision_time(command, position));
        part.payment = limit.payment;
        part.shadow = limit.shadow;
        part
    };
    limits.zip(states).map(part).collect()
}

pub(super) fn decision_time(command: &KeyCommand<'_>, position: usize) -> DecisionTime {
    DecisionTime {
        now: command.now,
        calendar: command.calendars.get(position).copied().flatten(),
    }
}

pub(super) fn decision(
    plan: &Plan,
    parts: &[Part<'_>],
    answer: Composite,
    detail: Detail,
) -> Decision {
    let mut decision = Decision::bare(answer.verdict, answer.binding);
    for (part, limit) in parts.iter().zip(plan.limits()) {
        if !part.verdict.admitted() {
            decision.shadowed |= part.shadow;
            decision.refused_levels |= u8::from(!part.shadow) << limit.level;
        }
    }
    let wanted = match detail {
        Detail::Verdict => false,
        Detail::OnRefusal => !answer.verdict.admitted(),
        Detail::Always => true,
    };
    if wanted {
        let standing = |part: &Part<'_>| Some(part.rule.standing(part.state, &part.time));
        decision.standings = parts.iter().map(standing).collect();
        decision.standings.resize(plan.limits().len(), None);
    }
    decision
}

/// The plan's limits, each with its state, if it has so many, all of one level, and none
/// follows a calendar: then all are decided as of the command's instant, and nothing is to
/// be looked up for any of them.
#[inline(always)]
pub(super) fn plain_limits<'a>(
    command: &KeyCommand<'a>,
    rows: &'a mut [Row],
    count: usize,
) -> Option<Zip<Iter<'a, PlanLimit>, IterMut<'a, State>>> {
    let limits = command.plan.limits();
    match (rows, command.calendars) {
        ([row], []) if count == limits.len() && row.len() == count => {
            Some(limits.iter().zip(row.iter_mut()))
        }
        _ => None,
    }
}

/// Runs `act` on every limit that the rows reach, in the plan's order, with its state and
/// its time.
#[inline(never)]
pub(super) fn each_limit(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    mut act: impl FnMut(usize, &PlanLimit, &mut State, &DecisionTime),
) {
    let states = rows.iter_mut().flat_map(|row| row.iter_mut());
    for (position, (limit, state)) in command.plan.limits().iter().zip(states).enumerate() {
        act(position, limit, state, &decision_time(command, position));
    }
}

/// Runs `act` on the limit with `uid` and its state, if both are still there.
pub(super) fn with_state(
    plan: &Plan,
    rows: &mut [Row],
    uid: u32,
    time: &DecisionTime,
    act: impl FnOnce(&PlanLimit, &mut State, &DecisionTime),
) {
    if let Some(position) = plan.position(uid) {
        with_state_at(plan, rows, position, time, act);
    }
}

/// Runs `act` on the limit at `position` and its state, if the rows reach it.
pub(super) fn with_state_at(
    plan: &Plan,
    rows: &mut [Row],
    position: usize,
    time: &DecisionTime,
    act: impl FnOnce(&PlanLimit, &mut State, &DecisionTime),
) {
    let Some(limit) = plan.limits().get(position) else {
        return;
    };
    let offset = position - plan.start(limit.level);
    let row = rows.get_mut(limit.level);
    if let Some(state) = row.and_then(|row| row.get_mut(offset)) {
        act(limit, state, time);
    }
}
