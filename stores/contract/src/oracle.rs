//! A command executed on rows that are at hand: load, decide, swap, without
//! I/O. A store that keeps state near the code runs this; a store that runs a
//! translation beside its data is compared with it.
//!
//! A *row* is the states of one level's limits for one key or ancestor, in the
//! plan's order; `rows[level]` belongs to `key.prefix(level)`.

use smallvec::SmallVec;
use tidegate_core::{
    Amount, Bounds, Composite, Moment, Part, Place, Receipt, State, Tenure, Timestamp, Verdict,
    commit, compose,
};

use crate::book::{Book, Record, Share, Shares, Stage};
use crate::command::{Detail, Ending, KeyCommand, Terms, Verb};
use crate::error::StoreError;
use crate::key::KeyPath;
use crate::plan::{Plan, PlanLimit};
use crate::reply::{Answer, Decision, Granted, Reply, Settlement, Use};

/// The states of one level's limits.
pub type Row = Box<[State]>;

type Parts<'a> = SmallVec<[Part<'a>; 4]>;

/// A row in which nothing was ever seen.
#[must_use]
pub fn fresh_row(plan: &Plan, level: usize) -> Row {
    plan.range(level).map(|_| State::Fresh).collect()
}

/// Executes `command` on its rows and the book that holds the key's leases.
///
/// # Errors
/// [`StoreError`]; rows and book are then as they were.
pub fn apply<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    book: &mut Book<O>,
    owner: O,
) -> Answer {
    let mut answer = Ok(Reply::Done);
    execute(command, rows, book, || owner, &mut answer);
    answer
}

/// As [`apply`], the answer written where the caller says: it is large, and to hand it
/// up from function to function costs more than what it answers. `owner` makes of the
/// command's key one that is kept.
#[inline]
pub fn execute<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    book: &mut Book<O>,
    owner: impl FnOnce() -> O,
    answer: &mut Answer,
) {
    if let Some(plan) = command.plan.at(&command.key) {
        let by_its_own = KeyCommand {
            plan: &plan,
            ..*command
        };
        return decide(&by_its_own, rows, book, owner, answer);
    }
    decide(command, rows, book, owner, answer);
}

fn decide<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    book: &mut Book<O>,
    owner: impl FnOnce() -> O,
    answer: &mut Answer,
) {
    match command.verb {
        Verb::Take {
            amounts,
            lease: None,
            detail,
        } => *answer = Ok(Reply::Decision(take(command, rows, amounts, detail))),
        Verb::Take {
            amounts,
            lease: Some(terms),
            detail,
        } => lease(
            command,
            rows,
            (book, owner),
            (amounts, terms, detail),
            answer,
        ),
        Verb::Debit { amounts } => *answer = Ok(Reply::Decision(debit(command, rows, amounts))),
        Verb::Peek { amounts } => *answer = Ok(Reply::Decision(peek(command, rows, amounts))),
        Verb::End {
            id,
            ending,
            remember,
        } => end(command, rows, book, (id, ending, remember), answer),
        Verb::Renew { id, until } => *answer = renew(command, rows, book, &owner(), id, until),
        Verb::Adjust {
            id,
            to,
            overdraw,
            detail,
        } => {
            let change = (id, to, overdraw, detail);
            *answer = adjust(command, rows, book, &owner(), change).map(Reply::Decision);
        }
        Verb::Reset => {
            reset(command, rows, book);
            *answer = Ok(Reply::Done);
        }
    }
}

/// Does what is due about a record that [`Book::take_due`] gave: gives back
/// what the limits give back at expiry, and answers when to look again, if
/// ever. `rows` are those of the record's owner.
pub fn expire<O>(
    plan: &Plan,
    rows: &mut [Row],
    record: &mut Record<O>,
    now: Timestamp,
) -> Option<Timestamp> {
    if !matches!(record.stage, Stage::Live) {
        return None;
    }
    for share in &record.shares {
        let refund = |limit: &PlanLimit, cell: &mut State, moment: &Moment| {
            if limit.refund_on_expiry && !share.forgotten {
                limit.rule.refund(cell, share.amount, share.place, moment);
            }
        };
        with_cell(plan, rows, share.uid, &Moment::at(now), refund);
    }
    record.stage = Stage::Expired;
    Some(record.granted.expires_at + plan.keep())
}

/// Whether an expired lease of this plan gives anything back by itself.
#[must_use]
pub fn refunds_on_expiry(plan: &Plan) -> bool {
    plan.limits().iter().any(|limit| limit.refund_on_expiry)
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
    for (cell, new) in adopted.iter_mut().zip(plan.range(level)) {
        let limit = &plan.limits()[new];
        let calendar = calendars.get(new).copied().flatten();
        let before = old.range(level).find(|&i| old.limits()[i].uid == limit.uid);
        if let Some(position) = before {
            *cell = std::mem::take(&mut row[position - old.range(level).start]);
            let rule = &old.limits()[position].rule;
            limit.rule.adopt(cell, rule, &Moment { now, calendar });
        }
    }
    adopted
}

fn take(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    amounts: &[Amount],
    detail: Detail,
) -> Decision {
    let mut parts = parts(command, rows, amounts);
    let answer = compose(&mut parts);
    if answer.verdict.admitted() {
        commit(&mut parts, None);
    }
    decision(command.plan, &parts, answer, detail)
}

fn lease<O: PartialEq>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    (book, owner): (&mut Book<O>, impl FnOnce() -> O),
    (amounts, terms, detail): (&[Amount], Terms<'_>, Detail),
    answer: &mut Answer,
) {
    let ask = terms.idempotency.map(|ask| ask_key(&command.key, ask));
    if let Some(known) = ask.as_ref().and_then(|ask| known(book, ask, command.now)) {
        let mut again = Decision::bare(Verdict::Admit, None);
        again.lease = Some(known);
        *answer = Ok(Reply::Decision(again));
        return;
    }
    let all_fit = all_fit(command, rows, amounts);
    if !all_fit && let Some(refusal) = refusal(command, rows, book, amounts, detail) {
        *answer = Ok(Reply::Decision(refusal));
        return;
    }
    let vacancy = match book.check_room(terms.id, command.key.root(), command.now) {
        Ok(vacancy) => vacancy,
        Err(error) => return *answer = Err(error),
    };
    let mut granted = Granted {
        id: terms.id,
        expires_at: terms.expires_at,
        fence: 0,
        repeated: false,
    };
    let mut decision = Decision::bare(Verdict::Admit, None);
    let shares = match all_fit && detail != Detail::Always {
        true => charge_all(command, rows, amounts, &mut granted),
        false => charge_some(
            command,
            rows,
            amounts,
            (&mut granted, &mut decision),
            detail,
        ),
    };
    decision.lease = Some(granted);
    *answer = Ok(Reply::Decision(decision));
    book.insert(Record::new(owner(), shares, granted), vacancy, ask);
}

/// Whether every amount fits, of shadows too: then each is charged as asked.
fn all_fit(command: &KeyCommand<'_>, rows: &mut [Row], amounts: &[Amount]) -> bool {
    let mut all = true;
    each_limit(command, rows, |position, limit, cell, moment| {
        let amount = amounts.get(position).copied().unwrap_or(0);
        limit.rule.observe(cell, moment);
        if amount > 0 {
            let must_fit = limit.payment.must_fit(amount);
            all &= limit.rule.quote(cell, must_fit, moment).admitted();
        }
    });
    all
}

/// Charges amounts that [all fit](all_fit).
fn charge_all(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    amounts: &[Amount],
    granted: &mut Granted,
) -> Shares {
    let mut shares = Shares::new();
    let tenure = Some(tenure(granted));
    each_limit(command, rows, |position, limit, cell, moment| {
        let amount = amounts.get(position).copied().unwrap_or(0);
        if amount > 0 {
            let receipt = limit.rule.charge(cell, amount, moment, tenure);
            granted.fence = granted.fence.max(receipt.fence);
            shares.push(share(limit, amount, receipt.place));
        }
    });
    shares
}

/// The refusal of amounts that do not [all fit](all_fit); none if only shadows refuse.
#[cold]
fn refusal<O: PartialEq>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    book: &Book<O>,
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
        refusal.refund_at = book.next_due_after(command.now);
    }
    Some(refusal)
}

/// Charges what is admitted, where a shadow may refuse or the standings are asked for.
#[cold]
fn charge_some(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    amounts: &[Amount],
    (granted, answered): (&mut Granted, &mut Decision),
    detail: Detail,
) -> Shares {
    let mut parts = parts(command, rows, amounts);
    let answer = compose(&mut parts);
    commit(&mut parts, Some(tenure(granted)));
    *answered = decision(command.plan, &parts, answer, detail);
    let mut shares = Shares::new();
    for (part, limit) in parts.iter().zip(command.plan.limits()) {
        if part.amount > 0 && part.verdict.admitted() {
            granted.fence = granted.fence.max(part.receipt.fence);
            shares.push(share(limit, part.amount, part.receipt.place));
        }
    }
    shares
}

const fn share(limit: &PlanLimit, amount: Amount, place: Place) -> Share {
    Share {
        uid: limit.uid,
        amount,
        place,
        forgotten: false,
    }
}

const fn tenure(granted: &Granted) -> Tenure {
    Tenure {
        id: granted.id,
        expires_at: granted.expires_at,
    }
}

/// Runs `act` on every limit that the rows reach, in the plan's order, with its cell and
/// its moment.
#[inline]
fn each_limit(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    mut act: impl FnMut(usize, &PlanLimit, &mut State, &Moment),
) {
    let plain = Moment::at(command.now);
    let mut limits = command.plan.limits().iter().enumerate();
    for row in rows {
        for (cell, (position, limit)) in row.iter_mut().zip(&mut limits) {
            let moment = match command.calendars.is_empty() {
                true => &plain,
                false => &moment(command, position),
            };
            act(position, limit, cell, moment);
        }
    }
}

/// The lease that an ask with this [`ask_key`] was given before, if it is held at
/// `now`: a retry is answered by it, and takes nothing. One that has ended or expired
/// is nobody's: the retry is then an ask like any other.
#[must_use]
pub fn known<O: PartialEq>(book: &Book<O>, ask: &[u8], now: Timestamp) -> Option<Granted> {
    let record = book.find_ask(ask)?;
    let is_held = record.granted.expires_at > now;
    is_held.then_some(Granted {
        repeated: true,
        ..record.granted
    })
}

fn debit(command: &KeyCommand<'_>, rows: &mut [Row], amounts: &[Amount]) -> Decision {
    let mut parts = parts(command, rows, amounts);
    compose(&mut parts);
    for part in parts.iter_mut().filter(|part| part.amount > 0) {
        part.verdict = Verdict::Admit;
    }
    commit(&mut parts, None);
    // The work is done; the answer is whether any more may start.
    for part in &mut parts {
        part.amount = part.amount.min(1);
    }
    let answer = compose(&mut parts);
    decision(command.plan, &parts, answer, Detail::Always)
}

fn peek(command: &KeyCommand<'_>, rows: &mut [Row], amounts: &[Amount]) -> Decision {
    let mut parts = parts(command, rows, amounts);
    let answer = compose(&mut parts);
    decision(command.plan, &parts, answer, Detail::Always)
}

fn end<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    book: &mut Book<O>,
    (id, ending, remember): (u128, Ending<'_>, bool),
    answer: &mut Answer,
) {
    let is_its = |owner: &O| owner.as_ref() == command.key.bytes();
    let found = book.find_place(id, is_its, command.now);
    let (place, record) = match found.map(|place| (place, book.record(place))) {
        Ok((place, Some(record))) => (place, record),
        Ok((_, None)) => return *answer = Err(StoreError::UnknownLease),
        Err(error) => return *answer = Err(error),
    };
    if let Stage::Ended(first) = &record.stage {
        *answer = Ok(Reply::Settled(Settlement {
            repeated: true,
            ..Settlement::clone(first)
        }));
        return;
    }
    *answer = Ok(Reply::Settled(Settlement {
        expired: record.granted.expires_at <= command.now,
        repeated: false,
        uses: SmallVec::new(),
    }));
    let Ok(Reply::Settled(settlement)) = answer else {
        return;
    };
    end_shares(command, rows, record, ending, &mut settlement.uses);
    if remember || record.has_idempotency() {
        let stage = Stage::Ended(Box::new(settlement.clone()));
        book.go_on(place, stage, command.now + command.plan.keep());
    } else {
        book.forget_at(place);
    }
}

fn end_shares<O>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    record: &Record<O>,
    ending: Ending<'_>,
    uses: &mut SmallVec<[Use; 4]>,
) {
    charge_untaken(command, rows, record, ending, uses);
    let plain = Moment::at(command.now);
    for (at, share) in record.shares.iter().enumerate() {
        let uid = share.uid;
        if record.shares[..at].iter().any(|before| before.uid == uid) {
            continue;
        }
        let position = command.plan.position_near(uid, at);
        let taken = record.taken(uid);
        let used = position.map_or(taken, |i| used(ending, i, taken));
        uses.push(Use { uid, taken, used });
        let Some(position) = position else { continue };
        let moment = match command.calendars.is_empty() {
            true => &plain,
            false => &moment(command, position),
        };
        with_cell_at(command.plan, rows, position, moment, |limit, cell, at| {
            end_charges(limit, cell, taken, used, record, at);
        });
    }
}

/// Charges what was used of limits that were not taken: left out by the ask,
/// or added since. (A shadow that would have refused goes on as if it had.)
fn charge_untaken<O>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    record: &Record<O>,
    ending: Ending<'_>,
    uses: &mut SmallVec<[Use; 4]>,
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
        let moment = moment(command, position);
        with_cell(command.plan, rows, limit.uid, &moment, |limit, cell, at| {
            limit.rule.observe(cell, at);
            limit.rule.charge(cell, used, at, None);
            uses.push(Use {
                uid: limit.uid,
                taken: 0,
                used,
            });
        });
    }
}

/// What an ending says was used of the plan's limit at `position`.
fn used(ending: Ending<'_>, position: usize, taken: Amount) -> Amount {
    let given_back = |back: bool| if back { 0 } else { taken };
    match ending {
        Ending::Settle(used) => used.get(position).copied().flatten().unwrap_or(taken),
        Ending::Release => taken,
        Ending::Fail(back) => given_back(back.get(position).copied().unwrap_or(false)),
        Ending::Cancel => 0,
    }
}

fn end_charges<O>(
    limit: &PlanLimit,
    cell: &mut State,
    taken: Amount,
    used: Amount,
    record: &Record<O>,
    moment: &Moment,
) {
    limit.rule.observe(cell, moment);
    if limit.rule.is_held() {
        limit
            .rule
            .release(cell, tenure(&record.granted), moment.now);
        return;
    }
    let refunded = limit.refund_on_expiry && matches!(record.stage, Stage::Expired);
    let charged = if refunded { 0 } else { taken };
    if used > charged {
        limit.rule.charge(cell, used - charged, moment, None);
    } else {
        give_back(limit, cell, record, charged - used, moment);
    }
}

/// Gives `amount` of a limit back where it was charged.
fn give_back<O>(
    limit: &PlanLimit,
    cell: &mut State,
    record: &Record<O>,
    amount: Amount,
    moment: &Moment,
) {
    for (index, part) in record.latest_first(limit.uid, amount) {
        let share = &record.shares[index];
        if !share.forgotten {
            limit.rule.refund(cell, part, share.place, moment);
        }
    }
}

/// Changes what a lease has taken, all or nothing. Where it is to hold more slots than it
/// does, all of them are asked for, as if what it holds was free.
fn adjust<O: PartialEq>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    book: &mut Book<O>,
    owner: &O,
    (id, to, overdraw, detail): (u128, &[Option<Amount>], bool, Detail),
) -> Result<Decision, StoreError> {
    let expires_at = held_until(command, book, owner, id)?;
    let plan = command.plan;
    let mut record = book.remove(id, owner)?;
    let changes: SmallVec<[Change; 4]> = (plan.limits().iter().enumerate())
        .map(|(position, limit)| Change::of(limit, &record, to.get(position).copied().flatten()))
        .collect();
    let asked: SmallVec<[Amount; 4]> = changes.iter().map(|c| c.asked(overdraw)).collect();
    let mut parts = parts(command, rows, &asked);
    let tenure = Tenure { id, expires_at };
    let mut slots: SmallVec<[(usize, State); 1]> = SmallVec::new();
    for (position, part) in parts.iter_mut().enumerate() {
        if changes[position].is_of_more_slots() {
            part.rule.observe(part.state, &part.moment);
            let before = part.state.clone();
            if part.rule.release(part.state, tenure, command.now) {
                slots.push((position, before));
            }
        }
    }
    let answer = compose(&mut parts);
    let admitted = answer.verdict.admitted();
    if admitted {
        commit(&mut parts, Some(tenure));
    }
    // What was held stays held as it was, and becomes more.
    for (position, before) in slots {
        let part = &mut parts[position];
        (*part.state, part.receipt) = (before, Receipt::default());
    }
    if admitted {
        let changed = parts.iter_mut().zip(plan.limits()).zip(&changes);
        for ((part, limit), change) in changed.filter(|((part, _), _)| part.verdict.admitted()) {
            change.carry_out(limit, part, &mut record, tenure);
        }
    }
    let mut decision = decision(plan, &parts, answer, detail);
    decision.lease = admitted.then_some(Granted {
        repeated: true,
        ..record.granted
    });
    book.put_back(record, expires_at);
    if !admitted && refunds_on_expiry(plan) {
        decision.refund_at = book.next_due_after(command.now);
    }
    Ok(decision)
}

/// What an adjustment does to one limit's share of a lease.
struct Change {
    is_held: bool,
    taken: Amount,
    target: Amount,
}

impl Change {
    fn of<O>(limit: &PlanLimit, record: &Record<O>, to: Option<Amount>) -> Self {
        let taken = record.taken(limit.uid);
        Self {
            is_held: limit.rule.is_held(),
            taken,
            target: to.unwrap_or(taken),
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
        limit: &PlanLimit,
        part: &mut Part<'_>,
        record: &mut Record<O>,
        tenure: Tenure,
    ) {
        if self.is_held && self.target != self.taken {
            match self.target {
                0 => drop(limit.rule.release(part.state, tenure, part.moment.now)),
                weight => drop(limit.rule.resize(part.state, tenure, weight)),
            }
            record.take_less(limit.uid, self.taken);
            record.take_more(limit.uid, self.target, part.receipt.place);
            record.granted.fence = record.granted.fence.max(part.receipt.fence);
            return;
        }
        let more = self.target.saturating_sub(self.taken);
        if more > part.amount {
            part.receipt = limit
                .rule
                .charge(part.state, more, &part.moment, Some(tenure));
        }
        if more > 0 {
            record.take_more(limit.uid, more, part.receipt.place);
        } else {
            let less = self.taken - self.target;
            give_back(limit, part.state, record, less, &part.moment);
            record.take_less(limit.uid, less);
        }
    }
}

/// Until when the lease is held.
fn held_until<O: PartialEq>(
    command: &KeyCommand<'_>,
    book: &Book<O>,
    owner: &O,
    id: u128,
) -> Result<Timestamp, StoreError> {
    let record = book.find(id, owner, command.now)?;
    let expires_at = record.granted.expires_at;
    if !matches!(record.stage, Stage::Live) || expires_at <= command.now {
        return Err(StoreError::LeaseEnded(expires_at.min(command.now)));
    }
    Ok(expires_at)
}

/// Forgets what was used of the key's own limits. Slots stay with their
/// holders, who would otherwise not be alone; and what a lease took before is
/// not given back after, to the loss of what is taken from now on.
fn reset<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    book: &mut Book<O>,
) {
    let Some(row) = rows.last_mut() else { return };
    row.iter_mut().for_each(State::reset);
    let range = command.plan.range(command.key.depth() - 1);
    let limits = &command.plan.limits()[range];
    forget_charges(command, book, |uid| {
        limits.iter().any(|limit| limit.uid == uid)
    });
}

/// Notes that leases of the command's key, and of those below it, give nothing back of the
/// limits of these numbers.
pub(crate) fn forget_charges<O: PartialEq + AsRef<[u8]>>(
    command: &KeyCommand<'_>,
    book: &mut Book<O>,
    which: impl Fn(u32) -> bool,
) {
    let levels = command.plan.levels();
    book.forget_charges(
        |owner| is_below(owner.as_ref(), &command.key, levels),
        |share| which(share.uid),
    );
}

/// Whether `owner` is `key` or has it for an ancestor. The levels say so, not
/// the separators: where there is one, `a/b` is no descendant of `a`.
fn is_below(owner: &[u8], key: &KeyPath<'_>, levels: usize) -> bool {
    let level = key.depth() - 1;
    let path = KeyPath::new(owner, levels);
    path.is_ok_and(|path| level < path.depth() && path.prefix(level) == key.bytes())
}

fn renew<O: PartialEq>(
    command: &KeyCommand<'_>,
    rows: &mut [Row],
    book: &mut Book<O>,
    owner: &O,
    id: u128,
    until: Timestamp,
) -> Result<Reply, StoreError> {
    let expires_at = held_until(command, book, owner, id)?;
    let mut record = book.remove(id, owner)?;
    let tenure = Tenure { id, expires_at };
    for share in &record.shares {
        let moment = Moment::at(command.now);
        with_cell(command.plan, rows, share.uid, &moment, |limit, cell, at| {
            limit.rule.observe(cell, at);
            limit.rule.renew(cell, tenure, until, at.now);
        });
    }
    record.granted.expires_at = until;
    book.put_back(record, until);
    Ok(Reply::Done)
}

/// One part for each of the plan's limits that the key reaches, in order.
fn parts<'a>(command: &'a KeyCommand<'_>, rows: &'a mut [Row], amounts: &[Amount]) -> Parts<'a> {
    let cells = rows.iter_mut().flat_map(|row| row.iter_mut());
    let limits = command.plan.limits().iter().enumerate();
    let part = |((position, limit), cell): ((usize, &'a PlanLimit), &'a mut State)| {
        let amount = amounts.get(position).copied().unwrap_or(0);
        let mut part = Part::new(&limit.rule, cell, amount, moment(command, position));
        part.payment = limit.payment;
        part.shadow = limit.shadow;
        part
    };
    limits.zip(cells).map(part).collect()
}

fn moment(command: &KeyCommand<'_>, position: usize) -> Moment {
    Moment {
        now: command.now,
        calendar: command.calendars.get(position).copied().flatten(),
    }
}

fn decision(plan: &Plan, parts: &[Part<'_>], answer: Composite, detail: Detail) -> Decision {
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
        let standing = |part: &Part<'_>| Some(part.rule.standing(part.state, &part.moment));
        decision.standings = parts.iter().map(standing).collect();
        decision.standings.resize(plan.limits().len(), None);
    }
    decision
}

/// Runs `act` on the limit with `uid` and its cell, if both are still there.
fn with_cell(
    plan: &Plan,
    rows: &mut [Row],
    uid: u32,
    moment: &Moment,
    act: impl FnOnce(&PlanLimit, &mut State, &Moment),
) {
    if let Some(position) = plan.position(uid) {
        with_cell_at(plan, rows, position, moment, act);
    }
}

/// Runs `act` on the limit at `position` and its cell, if the rows reach it.
fn with_cell_at(
    plan: &Plan,
    rows: &mut [Row],
    position: usize,
    moment: &Moment,
    act: impl FnOnce(&PlanLimit, &mut State, &Moment),
) {
    let Some(limit) = plan.limits().get(position) else {
        return;
    };
    let offset = position - plan.start(limit.level);
    let row = rows.get_mut(limit.level);
    if let Some(cell) = row.and_then(|row| row.get_mut(offset)) {
        act(limit, cell, moment);
    }
}

/// What a book knows an idempotency key by. It belongs to its key: the two, told
/// apart by a length.
#[must_use]
pub fn ask_key(key: &KeyPath<'_>, ask: &[u8]) -> Box<[u8]> {
    let key = key.bytes();
    let length = (key.len() as u32).to_le_bytes();
    [length.as_slice(), key, ask].concat().into_boxed_slice()
}
