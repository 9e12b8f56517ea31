//! A command executed on rows that are at hand: load, decide, write, without
//! I/O. A store that keeps state near the code runs this; a store that runs a
//! translation beside its data is compared with it.
//!
//! A *row* is the states of one level's limits for one key or ancestor, in the
//! plan's order; `rows[level]` belongs to `key.row(level)`.
//!
//! | room | holds |
//! |---|---|
//! | `step` | a part, a time, a state for each limit that the key reaches |
//! | `take` | takes, with and without a lease; debits and peeks |
//! | `end` | how a lease ends, and how it lasts longer |
//! | `adjust` | how a lease comes to hold more or less |
//! | `reset` | how a key is forgotten |
//! | `used` | what each of them changes of [usage](crate::usage) |

mod adjust;
mod end;
mod reset;
mod step;
mod take;
mod used;

use tidegate_core::{Bounds, DecisionTime, State, Timestamp};

use crate::command::{KeyCommand, Verb};
use crate::ledger::{LeaseStage, Ledger, Record};
use crate::plan::{Plan, PlanLimit};
use crate::reply::{Answer, Reply};

pub(crate) use reset::forget_charges;
pub use step::{Row, fresh_row, refunds_on_expiry};
pub use take::{find_repeated, scoped_idempotency_key};

use adjust::adjust;
use end::{end, renew};
use reset::reset;
use step::with_state;
use take::{debit, lease, peek, take};

/// Executes `command` on its rows and the ledger that holds the key's leases.
///
/// # Errors
/// [`StoreError`](crate::StoreError); rows and ledger are then as they were.
pub fn apply<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    ledger: &mut Ledger<O>,
    owner: O,
) -> Answer {
    let mut answer = Ok(Reply::Done);
    execute(command, rows, ledger, || owner, &mut answer);
    answer
}

/// As [`apply`], the answer written where the caller says: it is large, and to hand it
/// up from function to function costs more than what it answers. `owner` makes of the
/// command's key one that is kept.
#[inline(always)]
pub fn execute<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    ledger: &mut Ledger<O>,
    owner: impl FnOnce() -> O,
    answer: &mut Answer,
) {
    let (own, by_its_own) = (command.plan.at(&command.key), |plan| KeyCommand {
        plan,
        ..*command
    });
    let by_its_own = own.as_ref().map(by_its_own);
    let command = by_its_own.as_ref().unwrap_or(command);
    match command.verb {
        Verb::Take {
            amounts,
            lease: None,
            detail,
        } => {
            *answer = Ok(Reply::Decision(take(
                command, rows, ledger, amounts, detail,
            )))
        }
        Verb::Take {
            amounts,
            lease: Some(ref terms),
            detail,
        } => lease(
            command,
            rows,
            (ledger, owner),
            (amounts, terms, detail),
            answer,
        ),
        Verb::Debit { amounts } => {
            *answer = Ok(Reply::Decision(debit(command, rows, ledger, amounts)));
        }
        Verb::Peek { amounts } => *answer = Ok(Reply::Decision(peek(command, rows, amounts))),
        Verb::End {
            id,
            ending,
            remember,
        } => end(command, rows, ledger, (id, ending, remember), answer),
        Verb::Renew { id, until } => *answer = renew(command, rows, ledger, &owner(), id, until),
        Verb::Adjust {
            id,
            to,
            overdraw,
            detail,
        } => {
            let change = (id, to, overdraw, detail);
            *answer = adjust(command, rows, ledger, &owner(), change).map(Reply::Decision);
        }
        Verb::Reset => {
            reset(command, rows, ledger);
            *answer = Ok(Reply::Done);
        }
    }
}

/// Does what is due about a record that [`Ledger::take_due`] gave: gives back
/// what the limits give back at expiry, and answers when to look again, if
/// ever. `rows` are those of the record's owner; `ledger`, where it was, is told what was not
/// used.
pub fn expire<O: PartialEq + AsRef<[u8]>>(
    plan: &Plan,
    rows: &mut [Row],
    ledger: &mut Ledger<O>,
    record: &mut Record<O>,
    now: Timestamp,
) -> Option<Timestamp> {
    if !matches!(record.stage, LeaseStage::Live) {
        return None;
    }
    for share in &record.shares {
        let refund = |limit: &PlanLimit, state: &mut State, time: &DecisionTime| {
            if limit.refund_on_expiry && !share.forgotten {
                limit
                    .rule
                    .refund(state, share.amount, share.reference, time);
            }
        };
        with_state(plan, rows, share.uid, &DecisionTime::at(now), refund);
    }
    used::by_expiry(plan, ledger, record);
    record.stage = LeaseStage::Expired;
    Some(record.granted.expires_at + plan.keep())
}

/// Carries the rows of one level over from the plan that wrote them.
#[must_use]
pub fn adopt_row(
    plan: &Plan,
    old: &Plan,
    level: usize,
    row: &mut [State],
    now: Timestamp,
    calendars: &[Option<Bounds>],
) -> Row {
    let mut adopted = fresh_row(plan, level);
    for (state, new) in adopted.iter_mut().zip(plan.range(level)) {
        let limit = &plan.limits()[new];
        let calendar = calendars.get(new).copied().flatten();
        let before = old.range(level).find(|&i| old.limits()[i].uid == limit.uid);
        if let Some(position) = before {
            *state = std::mem::take(&mut row[position - old.range(level).start]);
            let rule = &old.limits()[position].rule;
            limit
                .rule
                .adopt(state, rule, &DecisionTime { now, calendar });
        }
    }
    adopted
}
