//! Takes, with and without a lease; debits and peeks.

use smallvec::SmallVec;
use tidegate_core::{Amount, DecisionTime, LeaseTerm, State, Timestamp, Verdict, commit, compose};

use super::step::{Row, decision, each_limit, parts, plain_limits, refunds_on_expiry};
use super::used;
use crate::command::{Detail, KeyCommand, Terms};
use crate::execution::overwrite;
use crate::key::KeyPath;
use crate::ledger::{Ledger, Record};
use crate::plan::PlanLimit;
use crate::reply::{Answer, Decision, Granted, Partial, Reply};

pub(super) fn take<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    ledger: &mut Ledger<O>,
    amounts: &[Amount],
    detail: Detail,
) -> Decision {
    let mut parts = parts(command, rows, amounts);
    let answer = compose(&mut parts);
    if answer.verdict.admitted() {
        commit(&mut parts, None);
        used::by_parts(command, ledger, &parts);
    }
    decision(command.plan, &parts, answer, detail)
}

pub(super) fn lease<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    (ledger, owner): (&mut Ledger<O>, impl FnOnce() -> O),
    (amounts, terms, detail): (&[Amount], &Terms<'_>, Detail),
    answer: &mut Answer,
) {
    let idempotency_key = terms
        .idempotency
        .map(|given| scoped_idempotency_key(&command.key, given));
    if let Some(known) = idempotency_key
        .as_ref()
        .and_then(|key| find_repeated(ledger, key, command.now))
    {
        let mut again = Decision::bare(Verdict::Admit, None);
        again.lease = Some(known);
        *answer = Ok(Reply::Decision(again));
        return;
    }
    let (partial, detail) = match terms.least {
        Some(least) => (
            Some(as_much_as_fits(command, rows, amounts, least)),
            Detail::Always,
        ),
        None => (None, detail),
    };
    let amounts = partial.as_deref().unwrap_or(amounts);
    let all_fit = all_fit(command, rows, amounts);
    if !all_fit && let Some(refusal) = refusal(command, rows, ledger, amounts, detail) {
        *answer = Ok(Reply::Decision(refusal));
        return;
    }
    let granted = Granted {
        id: terms.id,
        granted_at: command.now,
        expires_at: terms.expires_at,
        fence: 0,
        repeated: false,
    };
    let at = (command.key.root(), command.now);
    let record = match ledger.insert(owner, granted, at, idempotency_key) {
        Ok(record) => record,
        Err(error) => return *answer = Err(error),
    };
    // Made where it stays, as the record is.
    overwrite(
        answer,
        Ok(Reply::Decision(Decision::bare(Verdict::Admit, None))),
    );
    let Ok(Reply::Decision(decision)) = answer else {
        return;
    };
    match all_fit && detail != Detail::Always {
        true => charge_all(command, rows, amounts, record),
        false => *decision = charge_some(command, rows, amounts, record, detail),
    }
    decision.lease = Some(record.granted);
    if command.plan.usage().is_some() {
        record.count(command.plan);
        let (granted_at, shares) = (record.granted.granted_at, record.shares.clone());
        used::by_lease(command.plan, ledger, granted_at, &shares);
    }
    if let Some(amounts) = partial {
        say_what_was_taken(command, &amounts, answer);
    }
}

/// Of each limit as much of `amounts` as fits, `least` at least: then it is for the limits to
/// refuse. Of a shadow, which refuses nobody, all.
#[cold]
fn as_much_as_fits(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    amounts: &[Amount],
    least: &[Amount],
) -> SmallVec<[Amount; 3]> {
    let mut taken = SmallVec::new();
    each_limit(command, rows, |position, limit, state, time| {
        let amount = amounts.get(position).copied().unwrap_or(0);
        let least = least.get(position).copied().unwrap_or(0).min(amount);
        limit.rule.observe(state, time);
        taken.push(match limit.shadow {
            true => amount,
            false => amount
                .min(limit.rule.standing(state, time).remaining)
                .max(least),
        });
    });
    taken
}

/// Answers a decision that admitted a part as one.
#[cold]
fn say_what_was_taken(command: &KeyCommand<'_>, amounts: &[Amount], answer: &mut Answer) {
    let Ok(Reply::Decision(decision)) = answer else {
        return;
    };
    let decision = std::mem::replace(decision, Decision::bare(Verdict::Admit, None));
    let partial = Partial::new(command.plan, decision, amounts);
    *answer = Ok(Reply::Partial(Box::new(partial)));
}

/// Whether every amount fits, of shadows too: then each is charged as asked.
#[inline]
fn all_fit(command: &KeyCommand<'_>, rows: &mut [Row], amounts: &[Amount]) -> bool {
    let (mut all, at) = (true, DecisionTime::at(command.now));
    if let Some(limits) = plain_limits(command, rows, amounts.len()) {
        for ((limit, state), &amount) in limits.zip(amounts) {
            all &= fits(limit, state, amount, &at);
        }
        return all;
    }
    each_limit(command, rows, |position, limit, state, time| {
        let amount = amounts.get(position).copied().unwrap_or(0);
        all &= fits(limit, state, amount, time);
    });
    all
}

#[inline(always)]
fn fits(limit: &PlanLimit, state: &mut State, amount: Amount, time: &DecisionTime) -> bool {
    if amount == 0 {
        limit.rule.observe(state, time);
        return true;
    }
    let must_fit = limit.payment.must_fit(amount);
    limit.rule.admits(state, must_fit, time)
}

/// Charges amounts that [all fit](all_fit).
#[inline]
fn charge_all<O>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    amounts: &[Amount],
    record: &mut Record<O>,
) {
    let (term, at) = (lease_term(&record.granted), DecisionTime::at(command.now));
    if let Some(limits) = plain_limits(command, rows, amounts.len()) {
        for ((limit, state), &amount) in limits.zip(amounts) {
            charge(limit, state, amount, &at, (term, record));
        }
        return;
    }
    each_limit(command, rows, |position, limit, state, time| {
        let amount = amounts.get(position).copied().unwrap_or(0);
        charge(limit, state, amount, time, (term, record));
    });
}

#[inline(always)]
fn charge<O>(
    limit: &PlanLimit,
    state: &mut State,
    amount: Amount,
    time: &DecisionTime,
    (term, record): (LeaseTerm, &mut Record<O>),
) {
    if amount > 0 {
        let receipt = limit.rule.charge(state, amount, time, Some(term));
        record.charged(limit.uid, amount, receipt);
    }
}

/// The refusal of amounts that do not [all fit](all_fit); none if only shadows refuse.
#[cold]
fn refusal<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    ledger: &Ledger<O>,
    amounts: &[Amount],
    detail: Detail,
) -> Option<Decision> {
    let mut parts = parts(command, rows, amounts);
    let answer = compose(&mut parts);
    if answer.verdict.admitted() {
        return None;
    }
    let mut refusal = decision(command.plan, &parts, answer, detail);
    if refunds_on_expiry(command.plan) {
        refusal.refund_at = ledger.next_due_after(command.now);
    }
    Some(refusal)
}

/// Charges what is admitted, where a shadow may refuse or the standings are asked for.
#[cold]
fn charge_some<O>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    amounts: &[Amount],
    record: &mut Record<O>,
    detail: Detail,
) -> Decision {
    let mut parts = parts(command, rows, amounts);
    let answer = compose(&mut parts);
    commit(&mut parts, Some(lease_term(&record.granted)));
    for (part, limit) in parts.iter().zip(command.plan.limits()) {
        if part.amount > 0 && part.verdict.admitted() {
            record.charged(limit.uid, part.amount, part.receipt);
        }
    }
    decision(command.plan, &parts, answer, detail)
}

pub(super) const fn lease_term(granted: &Granted) -> LeaseTerm {
    LeaseTerm {
        id: granted.id,
        expires_at: granted.expires_at,
    }
}

/// The lease that a request with this [`scoped_idempotency_key`] was given before, if it is held at
/// `now`: a retry is answered by it, and takes nothing. One that has ended or expired
/// answers no retry: that is then a request like any other.
#[must_use]
pub fn find_repeated<O: PartialEq + AsRef<[u8]>>(
    ledger: &Ledger<O>,
    idempotency_key: &[u8],
    now: Timestamp,
) -> Option<Granted> {
    let record = ledger.find_by_idempotency_key(idempotency_key)?;
    let is_held = record.granted.expires_at > now;
    is_held.then_some(Granted {
        repeated: true,
        ..record.granted
    })
}

/// What a ledger knows an idempotency key by. It belongs to its key: the two, told
/// apart by a length.
#[must_use]
pub fn scoped_idempotency_key(key: &KeyPath<'_>, idempotency_key: &[u8]) -> Box<[u8]> {
    let key = key.bytes();
    let length = (key.len() as u32).to_le_bytes();
    [length.as_slice(), key, idempotency_key]
        .concat()
        .into_boxed_slice()
}

pub(super) fn debit<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    ledger: &mut Ledger<O>,
    amounts: &[Amount],
) -> Decision {
    let mut parts = parts(command, rows, amounts);
    compose(&mut parts);
    for part in parts.iter_mut().filter(|part| part.amount > 0) {
        part.verdict = Verdict::Admit;
    }
    commit(&mut parts, None);
    used::by_parts(command, ledger, &parts);
    // The work is done; the answer is whether any more may start.
    for part in &mut parts {
        part.amount = part.amount.min(1);
    }
    let answer = compose(&mut parts);
    decision(command.plan, &parts, answer, Detail::Always)
}

pub(super) fn peek(command: &KeyCommand<'_>, rows: &mut [Row], amounts: &[Amount]) -> Decision {
    let mut parts = parts(command, rows, amounts);
    let answer = compose(&mut parts);
    decision(command.plan, &parts, answer, Detail::Always)
}
