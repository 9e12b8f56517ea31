//! How a lease ends, and how it lasts longer.

use smallvec::SmallVec;
use tidegate_core::{Amount, DecisionTime, LeaseTerm, State, Timestamp};

use super::step::{Row, decision_time, plain_limits, with_state, with_state_at};
use super::take::lease_term;
use super::used;
use crate::command::{Ending, KeyCommand};
use crate::error::StoreError;
use crate::execution::overwrite;
use crate::ledger::{LeaseStage, Ledger, Record, Share};
use crate::plan::{Plan, PlanLimit};
use crate::reply::{Answer, Reply, Settlement, Use};

pub(super) fn end<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    ledger: &mut Ledger<O>,
    (id, ending, remember): (u128, Ending<'_>, bool),
    answer: &mut Answer,
) {
    let is_its = |owner: &O| owner.as_ref() == command.key.bytes();
    let found = ledger.find_index(id, is_its, command.now);
    let (index, record) = match found.map(|index| (index, ledger.record(index))) {
        Ok((index, Some(record))) => (index, record),
        Ok((_, None)) => return *answer = Err(StoreError::UnknownLease),
        Err(error) => return *answer = Err(error),
    };
    if let LeaseStage::Ended(first) = &record.stage {
        *answer = Ok(Reply::Settled(Settlement {
            repeated: true,
            ..Settlement::clone(first)
        }));
        return;
    }
    let settlement = Settlement {
        expired: record.granted.expires_at <= command.now,
        repeated: false,
        uses: SmallVec::new(),
    };
    overwrite(answer, Ok(Reply::Settled(settlement)));
    let Ok(Reply::Settled(settlement)) = answer else {
        return;
    };
    end_shares(command, rows, record, ending, &mut settlement.uses);
    let unused = used::by_end(command, record, &settlement.uses);
    if remember || record.has_idempotency() {
        let stage = LeaseStage::Ended(Box::new(settlement.clone()));
        ledger.go_on(index, stage, command.now + command.plan.keep());
    } else {
        ledger.forget_at(index);
    }
    used::note(command, ledger, unused);
}

/// Ends what was taken of each limit, in the order in which it was taken first.
#[inline]
fn end_shares<O>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    record: &Record<O>,
    ending: Ending<'_>,
    uses: &mut SmallVec<[Use; 3]>,
) {
    if !is_of_all(command.plan, record) {
        return end_some(command, rows, record, ending, uses);
    }
    let Some(limits) = plain_limits(command, rows, record.shares.len()) else {
        return end_some(command, rows, record, ending, uses);
    };
    let at = DecisionTime::at(command.now);
    for (position, ((limit, state), share)) in limits.zip(&record.shares).enumerate() {
        let of = Use {
            uid: share.uid,
            taken: share.amount,
            used: used(ending, position, share.amount),
        };
        uses.push(of);
        end_charges(limit, state, of, (record, share), &at);
    }
}

/// Whether it has taken of every limit of the plan once, in the plan's order.
#[inline]
fn is_of_all<O>(plan: &Plan, record: &Record<O>) -> bool {
    let mut both = plan.limits().iter().zip(&record.shares);
    both.all(|(limit, share)| limit.uid == share.uid)
}

/// The same, where limits were left out, or have changed since, or the lease was adjusted.
#[inline(never)]
fn end_some<O>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    record: &Record<O>,
    ending: Ending<'_>,
    uses: &mut SmallVec<[Use; 3]>,
) {
    charge_untaken(command, rows, record, ending, uses);
    for (at, share) in record.shares.iter().enumerate() {
        let Some(taken) = record.taken_first(at) else {
            continue;
        };
        let position = command.plan.position_near(share.uid, at);
        let of = Use {
            uid: share.uid,
            taken,
            used: position.map_or(taken, |position| used(ending, position, taken)),
        };
        uses.push(of);
        let Some(position) = position else { continue };
        let time = decision_time(command, position);
        with_state_at(command.plan, rows, position, &time, |limit, state, time| {
            end_charges(limit, state, of, (record, share), time);
        });
    }
}

/// Charges what was used of limits that were not taken: left out by the request,
/// or added since. (A shadow that would have refused goes on as if it had.)
fn charge_untaken<O>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    record: &Record<O>,
    ending: Ending<'_>,
    uses: &mut SmallVec<[Use; 3]>,
) {
    let Ending::Settle(used) = ending else { return };
    for (position, limit) in command.plan.limits().iter().enumerate() {
        let used = used.get(position).copied().flatten().unwrap_or(0);
        if used == 0 || limit.shadow || limit.rule.is_held() {
            continue;
        }
        if record.shares.iter().any(|share| share.uid == limit.uid) {
            continue;
        }
        let time = decision_time(command, position);
        with_state(command.plan, rows, limit.uid, &time, |limit, state, at| {
            limit.rule.observe(state, at);
            limit.rule.charge(state, used, at, None);
            uses.push(Use {
                uid: limit.uid,
                taken: 0,
                used,
            });
        });
    }
}

/// What an ending says was used of the plan's limit at `position`.
#[inline(always)]
fn used(ending: Ending<'_>, position: usize, taken: Amount) -> Amount {
    if let Ending::Settle(used) = ending {
        return match used.get(position) {
            Some(&Some(used)) => used,
            _ => taken,
        };
    }
    used_unsaid(ending, position, taken)
}

/// The same, where it is not said how much.
fn used_unsaid(ending: Ending<'_>, position: usize, taken: Amount) -> Amount {
    let is_given_back = match ending {
        Ending::Settle(_) | Ending::Release => false,
        Ending::Fail(back) => back.get(position).copied().unwrap_or(false),
        Ending::Cancel => true,
    };
    if is_given_back { 0 } else { taken }
}

#[inline]
fn end_charges<O>(
    limit: &PlanLimit,
    state: &mut State,
    of: Use,
    (record, share): (&Record<O>, &Share),
    time: &DecisionTime,
) {
    limit.rule.observe(state, time);
    if limit.rule.is_held() {
        limit
            .rule
            .release(state, lease_term(&record.granted), time.now);
        return;
    }
    let refunded = limit.refund_on_expiry && matches!(record.stage, LeaseStage::Expired);
    let charged = if refunded { 0 } else { of.taken };
    if of.used > charged {
        limit.rule.charge(state, of.used - charged, time, None);
    } else if of.used < charged {
        match record.is_adjusted() {
            true => give_back(limit, state, record, charged - of.used, time),
            false => refund(limit, state, share, charged - of.used, time),
        }
    }
}

/// Gives `amount` of a limit back where it was charged.
pub(super) fn give_back<O>(
    limit: &PlanLimit,
    state: &mut State,
    record: &Record<O>,
    amount: Amount,
    time: &DecisionTime,
) {
    for (share, part) in record.latest_first(limit.uid, amount) {
        refund(limit, state, share, part, time);
    }
}

/// Gives `amount` of one charge back.
#[inline]
fn refund(
    limit: &PlanLimit,
    state: &mut State,
    share: &Share,
    amount: Amount,
    time: &DecisionTime,
) {
    if !share.forgotten {
        limit.rule.refund(state, amount, share.reference, time);
    }
}

/// Until when the lease is held.
pub(super) fn held_until<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    ledger: &Ledger<O>,
    owner: &O,
    id: u128,
) -> Result<Timestamp, StoreError> {
    let record = ledger.find(id, owner, command.now)?;
    let expires_at = record.granted.expires_at;
    if !matches!(record.stage, LeaseStage::Live) || expires_at <= command.now {
        return Err(StoreError::LeaseEnded(expires_at.min(command.now)));
    }
    Ok(expires_at)
}

pub(super) fn renew<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    ledger: &mut Ledger<O>,
    owner: &O,
    id: u128,
    until: Timestamp,
) -> Result<Reply, StoreError> {
    let expires_at = held_until(command, ledger, owner, id)?;
    let mut record = ledger.remove(id, owner)?;
    let term = LeaseTerm { id, expires_at };
    for share in &record.shares {
        let time = DecisionTime::at(command.now);
        with_state(command.plan, rows, share.uid, &time, |limit, state, at| {
            limit.rule.observe(state, at);
            limit.rule.renew(state, term, until, at.now);
        });
    }
    record.granted.expires_at = until;
    ledger.put_back(record, until);
    Ok(Reply::Done)
}
