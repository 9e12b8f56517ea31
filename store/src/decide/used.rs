//! What a command changes of [usage](crate::usage): the one place that says so. Each is told
//! what was charged, or given back, and notes it with the ledger, if the plan counts it.

use smallvec::SmallVec;
use tidegate_core::{Amount, Part, Timestamp};

use crate::command::KeyCommand;
use crate::ledger::{LeaseStage, Ledger, Record, Share};
use crate::plan::{Plan, PlanLimit};
use crate::reply::Use;
use crate::usage::Hour;

/// Changes of the plan's limits, by their positions, each at a level of the key; all of one hour.
pub(super) type Changes = (Hour, SmallVec<[(usize, u8, i64); 3]>);

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
        if let (Some(level), Some(position)) = (share.counted_at, plan.position(share.uid)) {
            let name = &plan.limits()[position].name;
            let more = difference(0, share.amount);
            ledger.use_at((level, name), Hour::of(granted_at), more);
        }
    }
}

/// A lease is about to hold another amount of a limit. What it holds no more is given back where
/// it was counted, which may be another level than the limit has now.
pub(super) fn by_adjustment<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    ledger: &mut Ledger<O>,
    record: &Record<O>,
    limit: &PlanLimit,
    (before, after): (Amount, Amount),
) {
    if !is_counted(command.plan, record) || before == after {
        return;
    }
    let hour = Hour::of(record.granted.granted_at);
    // What is held is not used, and takes the place of what was.
    let stays = if limit.rule.is_held() { 0 } else { after };
    ledger.use_more(limit, hour, difference(before, after.max(before)));
    for (share, part) in record.latest_first(limit.uid, before.saturating_sub(stays)) {
        if let Some(level) = share.counted_at {
            ledger.use_at((level, &limit.name), hour, difference(part, 0));
        }
    }
}

/// At which level what a lease takes more of a limit is counted, if it is.
pub(super) fn counted_at<O>(plan: &Plan, record: &Record<O>, limit: &PlanLimit) -> Option<u8> {
    limit.counted_at().filter(|_| is_counted(plan, record))
}

/// A lease has ended with these uses: what is to be [noted](note) of it. What its limits gave
/// back when it expired was taken out then; what is given back now, where it was counted.
#[inline]
pub(super) fn by_end<O>(command: &KeyCommand<'_>, record: &Record<O>, uses: &[Use]) -> Changes {
    let mut changes = (Hour::default(), SmallVec::new());
    if !is_counted(command.plan, record) {
        return changes;
    }
    changes.0 = Hour::of(record.granted.granted_at);
    let expired = matches!(record.stage, LeaseStage::Expired);
    for of in uses {
        let Some(position) = command.plan.position(of.uid) else {
            continue;
        };
        let limit = &command.plan.limits()[position];
        let back = expired && limit.refund_on_expiry;
        let before = if back { 0 } else { of.taken };
        if let Some(level) = limit.counted_at().filter(|_| of.used > before) {
            changes
                .1
                .push((position, level, difference(before, of.used)));
        }
        for (share, part) in record.latest_first(of.uid, before.saturating_sub(of.used)) {
            if let Some(level) = share.counted_at {
                changes.1.push((position, level, difference(part, 0)));
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
    for (position, level, amount) in changes {
        let name = &command.plan.limits()[position].name;
        ledger.use_at((level, name), hour, amount);
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
        let limit = limit.filter(|limit| limit.refund_on_expiry);
        if let (Some(limit), Some(level)) = (limit, share.counted_at) {
            ledger.use_at((level, &limit.name), hour, difference(share.amount, 0));
        }
    }
}

fn is_counted<O>(plan: &Plan, record: &Record<O>) -> bool {
    record.is_counted && plan.usage().is_some()
}
