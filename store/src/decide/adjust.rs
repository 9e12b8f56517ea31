//! How a lease comes to hold more or less.

use smallvec::SmallVec;
use tidegate_core::{Amount, LeaseTerm, Part, Receipt, State, commit, compose};

use super::end::{give_back, held_until};
use super::step::{Row, decision, parts, refunds_on_expiry};
use super::used;
use crate::command::{Detail, KeyCommand};
use crate::error::StoreError;
use crate::ledger::{Ledger, Record};
use crate::plan::PlanLimit;
use crate::reply::{Decision, Granted};

/// Changes what a lease has taken, all or nothing. Where it is to hold more slots than it
/// does, all of them are asked for, as if what it holds was free.
pub(super) fn adjust<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    ledger: &mut Ledger<O>,
    owner: &O,
    (id, to, overdraw, detail): (u128, &[Option<Amount>], bool, Detail),
) -> Result<Decision, StoreError> {
    let expires_at = held_until(command, ledger, owner, id)?;
    let plan = command.plan;
    let mut record = ledger.remove(id, owner)?;
    let changes: SmallVec<[AmountChange; 4]> = (plan.limits().iter().enumerate())
        .map(|(position, limit)| {
            AmountChange::of(limit, &record, to.get(position).copied().flatten())
        })
        .collect();
    let asked: SmallVec<[Amount; 4]> = changes.iter().map(|c| c.asked(overdraw)).collect();
    let mut parts = parts(command, rows, &asked);
    let term = LeaseTerm { id, expires_at };
    let mut slots: SmallVec<[(usize, State); 1]> = SmallVec::new();
    for (position, part) in parts.iter_mut().enumerate() {
        if changes[position].is_of_more_slots() {
            part.rule.observe(part.state, &part.time);
            let before = part.state.clone();
            match part.rule.release(part.state, term, command.now) {
                true => slots.push((position, before)),
                false => *part.state = before,
            }
        }
    }
    let answer = compose(&mut parts);
    let admitted = answer.verdict.admitted();
    if admitted {
        commit(&mut parts, Some(term));
    }
    // What was held stays held as it was, and becomes more.
    for (position, before) in slots {
        let part = &mut parts[position];
        (*part.state, part.receipt) = (before, Receipt::default());
    }
    if admitted {
        let changed = parts.iter_mut().zip(plan.limits()).zip(&changes);
        for ((part, limit), change) in changed.filter(|((part, _), _)| part.verdict.admitted()) {
            let amounts = (change.taken, change.target);
            used::by_adjustment(command, ledger, &record, limit, amounts);
            let counted_at = used::counted_at(plan, &record, limit);
            change.carry_out((limit, counted_at), part, &mut record, term);
        }
    }
    let mut decision = decision(plan, &parts, answer, detail);
    decision.lease = admitted.then_some(Granted {
        repeated: true,
        ..record.granted
    });
    ledger.put_back(record, expires_at);
    if !admitted && refunds_on_expiry(plan) {
        decision.refund_at = ledger.next_due_after(command.now);
    }
    Ok(decision)
}

/// What an adjustment does to one limit's share of a lease.
struct AmountChange {
    is_held: bool,
    taken: Amount,
    target: Amount,
}

impl AmountChange {
    fn of<O>(limit: &PlanLimit, record: &Record<O>, to: Option<Amount>) -> Self {
        let taken = record.taken(limit.uid);
        // A shadow that would have refused goes on as if it had.
        let stays = limit.shadow && !record.took(limit.uid);
        Self {
            is_held: limit.rule.is_held(),
            taken,
            target: to.filter(|_| !stays).unwrap_or(taken),
        }
    }

    const fn is_of_more_slots(&self) -> bool {
        self.is_held && self.target > self.taken
    }

    /// How much must fit.
    const fn asked(&self, overdraw: bool) -> Amount {
        match (self.is_of_more_slots(), overdraw) {
            (true, _) => self.target,
            (false, true) => 0,
            (false, false) => self.target.saturating_sub(self.taken),
        }
    }

    /// Brings the limit and the record up to the target, after what must fit was charged.
    fn carry_out<O>(
        &self,
        (limit, counted_at): (&PlanLimit, Option<u8>),
        part: &mut Part<'_>,
        record: &mut Record<O>,
        term: LeaseTerm,
    ) {
        let now = part.time.now;
        if self.is_held && self.target != self.taken {
            match self.target {
                0 => limit.rule.release(part.state, term, now),
                weight => limit.rule.resize(part.state, term, weight, now),
            };
            record.take_less(limit.uid, self.taken, limit.shadow);
            record.take_more(limit.uid, self.target, (part.receipt.reference, counted_at));
            record.granted.fence = record.granted.fence.max(part.receipt.fence);
            return;
        }
        let more = self.target.saturating_sub(self.taken);
        if more > part.amount {
            part.receipt = limit.rule.charge(part.state, more, &part.time, Some(term));
        }
        if more > 0 {
            record.take_more(limit.uid, more, (part.receipt.reference, counted_at));
        } else if self.target < self.taken {
            let less = self.taken - self.target;
            give_back(limit, part.state, record, less, &part.time);
            record.take_less(limit.uid, less, limit.shadow);
        }
    }
}
