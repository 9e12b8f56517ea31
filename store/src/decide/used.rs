//! What a command changes of [usage](crate::usage): the one place that says so. Each is told
//! what was charged, or given back, and notes it with the ledger, if the plan counts it.

use smallvec::SmallVec;
use tidegate_core::{Amount, Part, Timestamp};

use crate::command::KeyCommand;
use crate::ledger::{LeaseStage, Ledger, Record, Share};
use crate::plan::{Plan, PlanLimit};
use crate::reply::Use;
use crate::usage::Hour;

/// Changes of the plan's limits, by their positions, all of one hour.
pub(super) type Changes = (Hour, SmallVec<[(usize, i64); 3]>);

/// How much more is used after than before.
const fn difference(before: Amount, after: Amount) -> i64 {
    after as i64 - before as i64
}

/// A take or a debit has charged those of its parts that are admitted.
#[inline]
pub(super) fn by_parts<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    ledger: &mut Ledger<O>,
    parts: &[Part<'_>],
) {
    if command.plan.usage().is_none() {
        return;
    }
    let hour = Hour::of(command.now);
    for (part, limit) in parts.iter().zip(command.plan.limits()) {
        if part.verdict.admitted() {
            ledger.use_more(limit, hour, difference(0, part.amount));
        }
    }
}

/// A lease that was granted now has taken these shares.
pub(super) fn by_lease<O: PartialEq + AsRef<[u8]>>(
    plan: &Plan,
    ledger: &mut Ledger<O>,
    granted_at: Timestamp,
    shares: &[Share],
) {
    for share in shares {
        if let Some(position) = plan.position(share.uid) {
            let limit = &plan.limits()[position];
            ledger.use_more(limit, Hour::of(granted_at), difference(0, share.amount));
        }
    }
}

/// A lease has come to hold another amount of a limit.
pub(super) fn by_adjustment<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    ledger: &mut Ledger<O>,
    record: &Record<O>,
    limit: &PlanLimit,
    (before, after): (Amount, Amount),
) {
    if is_counted(command.plan, record) {
        let hour = Hour::of(record.granted.granted_at);
        ledger.use_more(limit, hour, difference(before, after));
    }
}

/// A lease has ended with these uses: what is to be [noted](note) of it. What its limits gave
/// back when it expired was taken out then.
#[inline]
pub(super) fn by_end<O>(command: &KeyCommand<'_>, record: &Record<O>, uses: &[Use]) -> Changes {
    let mut changes = (Hour::default(), SmallVec::new());
    if is_counted(command.plan, record) {
        changes.0 = Hour::of(record.granted.granted_at);
        let expired = matches!(record.stage, LeaseStage::Expired);
        for of in uses {
            if let Some(position) = command.plan.position(of.uid) {
                let back = expired && command.plan.limits()[position].refund_on_expiry;
                let before = if back { 0 } else { of.taken };
                changes.1.push((position, difference(before, of.used)));
            }
        }
    }
    changes
}

/// Notes changes.
#[inline]
pub(super) fn note<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    ledger: &mut Ledger<O>,
    (hour, changes): Changes,
) {
    for (position, amount) in changes {
        ledger.use_more(&command.plan.limits()[position], hour, amount);
    }
}

/// A lease was found expired: what its limits give back by themselves was not used.
pub(super) fn by_expiry<O: PartialEq + AsRef<[u8]>>(
    plan: &Plan,
    ledger: &mut Ledger<O>,
    record: &Record<O>,
) {
    if !is_counted(plan, record) {
        return;
    }
    let hour = Hour::of(record.granted.granted_at);
    for share in &record.shares {
        let limit = plan.position(share.uid).map(|at| &plan.limits()[at]);
        if let Some(limit) = limit.filter(|limit| limit.refund_on_expiry) {
            ledger.use_more(limit, hour, difference(share.amount, 0));
        }
    }
}

fn is_counted<O>(plan: &Plan, record: &Record<O>) -> bool {
    record.is_counted && plan.usage().is_some()
}
