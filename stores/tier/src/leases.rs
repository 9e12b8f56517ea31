//! The leases that a node gives its callers of one key, each of units of a grant, slots among them;
//! and the store's leases that hold those slots. No I/O, no clock.
//!
//! A lease that is given ends no later than the store's surely does. So what its holder believes
//! is true, whatever becomes of this node: it takes no more from anybody than the store does.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_store::core::{Amount, Span, Timestamp, Verdict, sure_until};
use tidegate_store::{
    Answer, Decision, Detail, Ending, Granted, OwnedPath, Plan, Reply, Responder, Settlement,
    StoreError, Use, Wake,
};

use crate::calendars::Calendars;
use crate::grants::{Amounts, Grant, Grants};
use crate::node_id::NodeId;
use crate::returns::Return;
use crate::slot_lease::{Growth, Renewal, SlotLease, length_for};

/// The upper half of the id of each lease that a node gives: no other has it, but once in 2^64.
const MARK: u64 = 0x6c6f_6361_6c2e_7467;

/// The most of one key that are held, and the most that are remembered.
const MOST: usize = 4_096;

/// So long one that has ended is remembered at most.
const LONGEST_KEPT: Span = Span::from_secs(60);

/// Whether a lease of this id is one that a node gives.
#[must_use]
pub const fn is_given(id: u128) -> bool {
    (id >> 64) as u64 == MARK
}

/// Whether an id is such as a node draws for its leases, of whatever sort: nobody else may choose it.
#[must_use]
pub const fn is_reserved(id: u128) -> bool {
    is_given(id) || NodeId::of_lease(id).is_some()
}

struct Given {
    /// The store's lease that has its units.
    of: u128,
    plan: Arc<Plan>,
    amounts: Amounts,
    granted: Granted,
    stage: Stage,
    /// When it is forgotten, once it is not held.
    forget_at: Timestamp,
}

enum Stage {
    Held,
    Expired,
    /// Its end is known once the store has debited what it used beyond.
    Ending,
    Ended(Box<Settlement>),
}

/// What comes back to a grant that is spent of still.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Back {
    pub(crate) grant: u128,
    pub(crate) amounts: Amounts,
}

/// How a lease has ended.
pub(crate) struct Over {
    pub(crate) settlement: Settlement,
    pub(crate) back: Option<Back>,
    /// What was used beyond what was taken, by `uid`, where no lease of the store is left.
    pub(crate) debit: Vec<(u32, Amount)>,
}

/// What comes of a wish to hold more, or less.
pub(crate) enum Adjusted {
    Done(Decision, Option<Back>),
    /// The store is to be asked, for so much more of the lease of the store, of which nothing more
    /// is given first.
    Ask(u128, Amounts),
}

/// What comes of a wish to expire later.
pub(crate) enum Renewed {
    Done,
    /// The store is asked first.
    Asks,
}

/// Why the store's lease is to have another amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// Of what it has less is used, or more is used already.
    Use,
    /// A holder asks for more; `true`: even if its rates do not fit.
    Growth(bool),
}

/// What the store is asked.
pub(crate) enum Step {
    End(Return),
    /// To have so much in all, in the order of the limits of the lease.
    Adjust(u128, Amounts, Cause),
    Renew(u128, Timestamp),
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Leases {
    given: HashMap<u128, Given, foldhash::fast::RandomState>,
    /// When each that is held expires.
    held: BTreeSet<(Timestamp, u128)>,
    /// When each of the others is forgotten.
    over: BTreeSet<(Timestamp, u128)>,
    slots: Vec<SlotLease>,
}

impl Leases {
    /// Whether another may be given.
    pub(crate) fn has_room(&self) -> bool {
        self.held.len() < MOST
    }

    /// Whether nothing is held or remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.given.is_empty() && self.slots.is_empty()
    }

    /// Gives a lease of `amounts`, which were spent of `grant`, from `now` until `until`.
    pub(crate) fn give(
        &mut self,
        grant: &Grant,
        amounts: &[Amount],
        (now, until): (Timestamp, Timestamp),
    ) -> Granted {
        let id = (u128::from(MARK) << 64) | u128::from(fastrand::u64(..));
        let granted = Granted {
            id,
            granted_at: now,
            expires_at: until,
            fence: 0,
            repeated: false,
        };
        match self.slots_of(grant.id) {
            Some(lease) => lease.held += 1,
            None => {
                let mut lease = SlotLease::of(grant);
                lease.held = 1;
                self.slots.push(lease);
            }
        }
        self.held.insert((until, id));
        let given = Given {
            of: grant.id,
            plan: Arc::clone(&grant.plan),
            amounts: amounts.into(),
            granted,
            stage: Stage::Held,
            forget_at: until,
        };
        self.given.insert(id, given);
        granted
    }

    fn slots_of(&mut self, id: u128) -> Option<&mut SlotLease> {
        self.slots.iter_mut().find(|lease| lease.id == id)
    }

    /// Ends what has expired by `now`, and forgets what has been over for long enough. What comes
    /// back to grants.
    pub(crate) fn expire(&mut self, now: Timestamp) -> SmallVec<[Back; 2]> {
        let mut back = SmallVec::new();
        while let Some(&(at, id)) = self.held.first().filter(|(at, _)| *at <= now) {
            back.extend(self.let_expire(id, at));
        }
        while let Some(&(at, id)) = self.over.first()
            && (at <= now || self.over.len() > MOST)
        {
            self.over.remove(&(at, id));
            self.given.remove(&id);
        }
        back
    }

    /// A lease that is held has expired at this instant.
    fn let_expire(&mut self, id: u128, at: Timestamp) -> Option<Back> {
        let given = self.given.get_mut(&id)?;
        self.held.remove(&(given.granted.expires_at, id));
        given.granted.expires_at = at;
        given.stage = Stage::Expired;
        given.forget_at = at + given.plan.keep().min(LONGEST_KEPT);
        self.over.insert((given.forget_at, id));
        let limits = given.plan.limits().iter();
        let slots = limits.zip(&given.amounts);
        let slots = slots.map(|(limit, &amount)| match limit.rule.is_held() {
            true => amount,
            false => 0,
        });
        let (of, slots) = (given.of, slots.collect());
        self.give_back(of, slots, true)
    }

    /// What was taken of a lease of the store comes back; `is_end`: with a lease that was held.
    fn give_back(&mut self, of: u128, amounts: Amounts, is_end: bool) -> Option<Back> {
        let lease = self.slots_of(of)?;
        lease.held -= usize::from(is_end);
        let amounts = lease.take_back(amounts)?;
        Some(Back { grant: of, amounts })
    }

    /// Ends a lease. `plan` is that of the command, in whose order `ending` is.
    ///
    /// # Errors
    /// [`StoreError::UnknownLease`]; [`StoreError::Busy`] while another end of it is under way.
    pub(crate) fn end(
        &mut self,
        id: u128,
        (plan, ending, remember): (&Plan, Ending<'_>, bool),
        now: Timestamp,
    ) -> Result<Over, StoreError> {
        let given = self.given.get_mut(&id).ok_or(StoreError::UnknownLease)?;
        match &given.stage {
            Stage::Ended(first) => {
                let mut settlement = Settlement::clone(first);
                settlement.repeated = true;
                return Ok(Over {
                    settlement,
                    back: None,
                    debit: Vec::new(),
                });
            }
            Stage::Ending => return Err(is_ending()),
            Stage::Held | Stage::Expired => {}
        }
        let is_held = matches!(given.stage, Stage::Held);
        let (uses, back, beyond) = given.uses(plan, ending, is_held);
        let settlement = Settlement {
            expired: !is_held,
            repeated: false,
            uses,
        };
        let of = given.of;
        let back = self.give_back(of, back, is_held);
        let debit = self.go_beyond(of, beyond);
        match debit.is_empty() {
            true => self.note_end(id, remember.then_some(&settlement), now),
            // It had expired: it is not among those that are held.
            false => self.set_stage(id, Stage::Ending),
        }
        Ok(Over {
            settlement,
            back,
            debit,
        })
    }

    /// What a lease used beyond is debited: it has ended, with this settlement where that is to be
    /// remembered.
    pub(crate) fn note_end(&mut self, id: u128, remember: Option<&Settlement>, now: Timestamp) {
        let Some(given) = self.given.get_mut(&id) else {
            return;
        };
        self.held.remove(&(given.granted.expires_at, id));
        self.over.remove(&(given.forget_at, id));
        match remember {
            Some(settlement) => {
                given.stage = Stage::Ended(Box::new(settlement.clone()));
                given.forget_at = now + given.plan.keep().min(LONGEST_KEPT);
                self.over.insert((given.forget_at, id));
            }
            None => _ = self.given.remove(&id),
        }
    }

    /// The store has debited nothing: the end may be asked for again.
    pub(crate) fn undo_end(&mut self, id: u128) {
        self.set_stage(id, Stage::Expired);
    }

    fn set_stage(&mut self, id: u128, stage: Stage) {
        if let Some(given) = self.given.get_mut(&id) {
            given.stage = stage;
        }
    }

    /// More was used than was taken: the store's lease has it, or else it is to be debited.
    fn go_beyond(&mut self, of: u128, beyond: Vec<(u32, Amount)>) -> Vec<(u32, Amount)> {
        let Some(lease) = self.slots_of(of) else {
            return beyond;
        };
        let plan = Arc::clone(&lease.plan);
        let mut debit = Vec::new();
        for (uid, more) in beyond {
            match plan.position(uid) {
                Some(position) => lease.go_beyond(position, more),
                None => debit.push((uid, more)),
            }
        }
        debit
    }

    /// The one that is held.
    fn held(&mut self, id: u128, now: Timestamp) -> Result<&mut Given, StoreError> {
        let given = self.given.get_mut(&id).ok_or(StoreError::UnknownLease)?;
        match given.stage {
            Stage::Held => Ok(given),
            _ => Err(StoreError::LeaseEnded(given.granted.expires_at.min(now))),
        }
    }

    /// Has a lease expire at `until`; where the store's is not there for as long, the store is
    /// asked, and `responder` is told then.
    ///
    /// # Errors
    /// [`StoreError::UnknownLease`], [`StoreError::LeaseEnded`]; [`StoreError::Busy`].
    pub(crate) fn renew(
        &mut self,
        id: u128,
        (now, until): (Timestamp, Timestamp),
        responder: impl FnOnce() -> Responder,
    ) -> Result<Renewed, StoreError> {
        let of = self.held(id, now)?.of;
        let Some(lease) = self.slots_of(of) else {
            return Err(StoreError::LeaseEnded(now));
        };
        if until <= lease.sure_until {
            self.expire_at(id, until);
            return Ok(Renewed::Done);
        }
        if lease.renewals.len() >= MOST {
            return Err(StoreError::Busy(
                "too many leases are renewed at once".to_owned(),
            ));
        }
        lease.renewals.push(Renewal {
            id,
            until,
            stores_until: now + length_for(until.since(now)),
            responder: responder(),
        });
        lease.is_put_off = false;
        Ok(Renewed::Asks)
    }

    fn expire_at(&mut self, id: u128, until: Timestamp) {
        if let Some(given) = self.given.get_mut(&id) {
            self.held.remove(&(given.granted.expires_at, id));
            given.granted.expires_at = until;
            self.held.insert((until, id));
        }
    }

    /// Has a lease hold so much in all: `to` in the order of `plan`.
    ///
    /// # Errors
    /// [`StoreError::UnknownLease`], [`StoreError::LeaseEnded`]; [`StoreError::Busy`] while the
    /// store is asked for more, for this one or another that has its slots of the same lease.
    pub(crate) fn adjust(
        &mut self,
        grants: &mut Grants,
        (id, plan, to): (u128, &Plan, &[Option<Amount>]),
        (overdraw, detail): (bool, Detail),
        now: Timestamp,
    ) -> Result<Adjusted, StoreError> {
        let given = self.held(id, now)?;
        let target = given.target(plan, to)?;
        let (of, granted) = (given.of, given.granted);
        let differ = |from: &Amounts, to: &Amounts| -> Amounts {
            let both = from.iter().zip(to);
            both.map(|(&from, &to)| to.saturating_sub(from)).collect()
        };
        let (more, less) = (
            differ(&given.amounts, &target),
            differ(&target, &given.amounts),
        );
        let has_slots_in = |amounts: &Amounts| {
            let mut limits = given.plan.limits().iter().zip(amounts);
            limits.any(|(limit, &amount)| amount > 0 && limit.rule.is_held())
        };
        let takes_slots = has_slots_in(&more);
        let is_more = more.iter().any(|&amount| amount > 0);
        let Some(lease) = self.slots.iter_mut().find(|lease| lease.id == of) else {
            return Err(StoreError::LeaseEnded(now));
        };
        // What the store is asked for is counted from what this lease has.
        if lease.growth.as_ref().is_some_and(|growth| growth.id == id) {
            return Err(busy());
        }
        if is_more && !grants.spend_of(of, &more, now) {
            if takes_slots || !overdraw {
                if less.iter().any(|&less| less > 0) {
                    return Err(StoreError::Busy(
                        "more of one limit and less of another are two adjustments; \
                         ask for less first"
                            .to_owned(),
                    ));
                }
                return match lease.growth.is_some() {
                    true => Err(busy()),
                    false => Ok(Adjusted::Ask(of, more)),
                };
            }
            let all = more.iter().enumerate();
            all.for_each(|(position, &more)| lease.go_beyond(position, more));
        }
        let mut decision = Decision::bare(Verdict::Admit, None);
        decision.lease = Some(Granted {
            repeated: true,
            ..granted
        });
        if detail == Detail::Always {
            decision.standings = lease.standings.clone();
        }
        if let Some(given) = self.given.get_mut(&id) {
            given.amounts = target;
        }
        let back = self.give_back(of, less, false);
        Ok(Adjusted::Done(decision, back))
    }

    /// Asks the store for so much more of the lease `of`.
    pub(crate) fn grow(&mut self, of: u128, growth: Growth) -> Wake {
        match self.slots_of(of) {
            Some(lease) if lease.growth.is_none() => {
                lease.growth = Some(growth);
                lease.is_put_off = false;
                lease.refuse_growth()
            }
            _ => growth.responder.answer(Err(busy())),
        }
    }

    /// A grant is not spent of any more. What is to be ended at the store now; `None`: leases that
    /// were given of it are held.
    pub(crate) fn close(&mut self, grant: &Grant, of: (&OwnedPath, &Calendars)) -> Option<Return> {
        let Some(at) = self.slots.iter().position(|lease| lease.id == grant.id) else {
            return Some(Return::of(of.0, grant));
        };
        let lease = &mut self.slots[at];
        lease.close(grant.units.spent());
        match lease.held == 0 && !lease.is_under_way {
            true => Some(self.slots.swap_remove(at).ending(of)),
            false => None,
        }
    }

    /// The store is to be asked again, if it did not answer.
    pub(crate) fn try_again(&mut self, now: Timestamp) {
        self.slots.iter_mut().for_each(|lease| lease.try_again(now));
    }

    /// What the store is to be asked next, if anything is.
    pub(crate) fn step(&mut self, of: (&OwnedPath, &Calendars), now: Timestamp) -> Option<Step> {
        let is_over = |lease: &SlotLease| lease.is_closed() && lease.held == 0;
        let idle = |lease: &&SlotLease| !lease.is_under_way;
        if let Some(at) = self
            .slots
            .iter()
            .position(|lease| idle(&lease) && is_over(lease) && lease.growth.is_none())
        {
            return Some(Step::End(self.slots.swap_remove(at).ending(of)));
        }
        let mut open = self.slots.iter_mut();
        let lease =
            open.find(|lease| !lease.is_under_way && !lease.is_put_off && lease.has_wish())?;
        lease.is_under_way = true;
        Some(match lease.next_end(now) {
            Some(until) => Step::Renew(lease.id, until),
            None => {
                let growth = lease.growth.as_ref();
                let cause = growth.map_or(Cause::Use, |growth| Cause::Growth(growth.overdraw));
                Step::Adjust(lease.id, lease.wanted_with_growth(), cause)
            }
        })
    }

    /// The store's lease, for the amounts of a [step](Self::step).
    pub(crate) fn slot_lease(&self, id: u128) -> Option<&SlotLease> {
        self.slots.iter().find(|lease| lease.id == id)
    }

    /// The store has answered that a lease of it ends at `until`, or not. It was asked at `asked`.
    /// Whether it is lost, and what came back.
    pub(crate) fn renewed(
        &mut self,
        (id, until): (u128, Timestamp),
        answer: &Answer,
        (asked, now, has_own_clock): (Timestamp, Timestamp, bool),
        was_sent: bool,
        wakes: &mut Vec<Wake>,
    ) -> bool {
        let Some(lease) = self.slots_of(id) else {
            return false;
        };
        lease.is_under_way = false;
        let all = std::mem::take(&mut lease.renewals);
        if let Err(error) = answer {
            lease.put_off();
            match is_in_doubt(error, was_sent) {
                true => lease.note_unanswered_end(until.since(asked), now),
                false => lease.tell_end_again(now),
            }
            for one in all {
                wakes.push(one.responder.answer(Err(error.clone())));
            }
            return self.is_lost(id, error, now, wakes);
        }
        lease.note_end_told(asked);
        let sure = match has_own_clock {
            true => sure_until(until, until.since(asked)),
            false => until,
        };
        lease.sure_until = lease.sure_until.max(sure);
        let (told, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.until <= sure);
        lease.renewals = rest;
        for one in told {
            let answer = match self.held(one.id, now) {
                Ok(_) => {
                    self.expire_at(one.id, one.until);
                    Ok(Reply::Done)
                }
                Err(error) => Err(error),
            };
            wakes.push(one.responder.answer(answer));
        }
        false
    }

    /// The store has answered what a lease of it has now. Whether it is lost.
    pub(crate) fn adjusted(
        &mut self,
        (id, to, cause): (u128, Amounts, Cause),
        answer: Answer,
        (now, was_sent): (Timestamp, bool),
        wakes: &mut Vec<Wake>,
    ) -> bool {
        let Some(lease) = self.slots_of(id) else {
            return false;
        };
        lease.is_under_way = false;
        let is_growth = cause != Cause::Use;
        let growth = lease.growth.take_if(|_| is_growth);
        let admitted = answer.as_ref().is_ok_and(|reply| {
            let verdict = reply.verdict();
            verdict.is_some_and(Verdict::admitted)
        });
        match &answer {
            Ok(_) if admitted => lease.note_told(to),
            Ok(_) if is_growth => {}
            Err(error) if is_in_doubt(error, was_sent) => {
                lease.note_unanswered(to, now);
                wakes.push(lease.refuse_growth());
                lease.put_off();
            }
            _ => lease.put_off(),
        }
        let error = answer.as_ref().err().cloned();
        if let Some(growth) = growth {
            wakes.push(self.grown(id, growth, answer, (admitted, now)));
        }
        error.is_some_and(|error| self.is_lost(id, &error, now, wakes))
    }

    /// A holder is told what came of its wish for more.
    fn grown(
        &mut self,
        of: u128,
        growth: Growth,
        answer: Answer,
        (admitted, now): (bool, Timestamp),
    ) -> Wake {
        let held = self.held(growth.id, now);
        let given = match held {
            Ok(given) => given,
            Err(error) => return growth.responder.answer(Err(error)),
        };
        let granted = given.granted;
        if admitted {
            let all = given.amounts.iter_mut().zip(&growth.more);
            all.for_each(|(amount, &more)| *amount += more);
            if let Some(lease) = self.slots_of(of) {
                lease.use_more(&growth.more);
            }
        }
        let answer = answer.map(|reply| match reply {
            Reply::Decision(mut decision) => {
                decision.lease = admitted.then_some(Granted {
                    repeated: true,
                    ..granted
                });
                Reply::Decision(decision)
            }
            reply => reply,
        });
        growth.responder.answer(answer)
    }

    /// Whether the store has said with `error` that its lease is over: then what was given of it
    /// is, too.
    fn is_lost(
        &mut self,
        id: u128,
        error: &StoreError,
        now: Timestamp,
        wakes: &mut Vec<Wake>,
    ) -> bool {
        if !matches!(error, StoreError::UnknownLease | StoreError::LeaseEnded(_)) {
            return false;
        }
        let all = self.given.iter();
        let held = all.filter(|(_, one)| one.of == id && matches!(one.stage, Stage::Held));
        let held: Vec<u128> = held.map(|(&id, _)| id).collect();
        for given in held {
            drop(self.let_expire(given, now));
        }
        let at = self.slots.iter().position(|lease| lease.id == id);
        if let Some(lease) = at.map(|at| self.slots.swap_remove(at)) {
            for one in lease.renewals {
                wakes.push(one.responder.answer(Err(StoreError::LeaseEnded(now))));
            }
            if let Some(growth) = lease.growth {
                wakes.push(growth.responder.answer(Err(StoreError::LeaseEnded(now))));
            }
        }
        true
    }
}

impl Given {
    /// What was taken and used of each limit; what comes back; what was used beyond.
    fn uses(
        &self,
        plan: &Plan,
        ending: Ending<'_>,
        is_held: bool,
    ) -> (SmallVec<[Use; 3]>, Amounts, Vec<(u32, Amount)>) {
        let (mut uses, mut beyond) = (SmallVec::new(), Vec::new());
        let mut back: Amounts = self.amounts.iter().map(|_| 0).collect();
        for (position, (limit, &taken)) in self.plan.limits().iter().zip(&self.amounts).enumerate()
        {
            let there = plan.position(limit.uid);
            let used = there.map_or(taken, |there| used(ending, there, taken));
            let is_left_out = limit.shadow || limit.rule.is_held();
            if taken == 0 && (used == 0 || is_left_out) {
                continue;
            }
            uses.push(Use {
                uid: limit.uid,
                taken,
                used,
            });
            match limit.rule.is_held() {
                true if is_held => back[position] = taken,
                true => {}
                false if used > taken => beyond.push((limit.uid, used - taken)),
                false => back[position] = taken - used,
            }
        }
        (uses, back, beyond)
    }

    /// What it is to hold in all.
    ///
    /// # Errors
    /// [`StoreError::Busy`]: of a limit that there was not when it was given.
    fn target(&self, plan: &Plan, to: &[Option<Amount>]) -> Result<Amounts, StoreError> {
        let mut target = self.amounts.clone();
        target.resize(self.plan.limits().len(), 0);
        for (limit, wanted) in plan.limits().iter().zip(to) {
            let Some(wanted) = *wanted else { continue };
            match self.plan.position(limit.uid) {
                Some(position) => target[position] = wanted,
                None if wanted == 0 => {}
                None => {
                    return Err(StoreError::Busy(
                        "the limits have changed since this lease was given; acquire anew"
                            .to_owned(),
                    ));
                }
            }
        }
        target.truncate(self.amounts.len().max(last_taken(&target)));
        Ok(target)
    }
}

/// How many of `amounts` there are up to the last that takes something.
fn last_taken(amounts: &[Amount]) -> usize {
    let last = amounts.iter().rposition(|&amount| amount > 0);
    last.map_or(0, |last| last + 1)
}

/// What an ending says was used of the limit at `position`, of which so much was taken.
fn used(ending: Ending<'_>, position: usize, taken: Amount) -> Amount {
    let is_given_back = match ending {
        Ending::Settle(used) => return used.get(position).copied().flatten().unwrap_or(taken),
        Ending::Release => false,
        Ending::Fail(back) => back.get(position).copied().unwrap_or(false),
        Ending::Cancel => true,
    };
    if is_given_back { 0 } else { taken }
}

/// Whether the store may do, or have done, what was answered so. What was not sent it does not.
pub(crate) const fn is_in_doubt(error: &StoreError, was_sent: bool) -> bool {
    was_sent && matches!(error, StoreError::Unavailable(_))
}

fn is_ending() -> StoreError {
    StoreError::Busy("this lease is being ended; ask again".to_owned())
}

fn busy() -> StoreError {
    StoreError::Busy(
        "the store is asked for more slots for this lease, or for another of the same grant; \
         ask again"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use tidegate_store::core::{Payment, Rule, Slots};
    use tidegate_store::{KeyPath, Partial, PlanLimit, response_channel};

    use super::*;

    const SECOND: i64 = 1_000_000;

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * SECOND)
    }

    fn plan() -> Arc<Plan> {
        let slots = Slots::new(9, Span::SECOND).expect("slots");
        let limit = PlanLimit {
            name: "slots".into(),
            uid: 0,
            rule: Rule::Slots(slots),
            level: 0,
            payment: Payment::Prepaid,
            shadow: false,
            refund_on_expiry: false,
            adaptive: None,
        };
        Arc::new(Plan::new(0, 1, vec![limit], Span::from_secs(30)))
    }

    /// Four slots that the store leases to this node until the hundredth second.
    fn grant(plan: &Arc<Plan>) -> Grant {
        let mut decision = Decision::bare(Verdict::Admit, None);
        decision.lease = Some(Granted {
            id: 7,
            granted_at: at(0),
            expires_at: at(100),
            fence: 1,
            repeated: false,
        });
        let partial = Partial::new(plan, decision, &[4]);
        Grant::new(7, plan, partial, (at(0), true)).of_slots(at(50))
    }

    fn path() -> OwnedPath {
        OwnedPath::of(&KeyPath::new(b"k", 1).expect("a key"))
    }

    fn renew(leases: &mut Leases, id: u128, until: i64) -> Result<Renewed, StoreError> {
        leases.renew(id, (at(20), at(until)), || response_channel(drop).0)
    }

    fn step(leases: &mut Leases) -> Option<Step> {
        leases.step((&path(), &Calendars::default()), at(20))
    }

    #[test]
    fn a_lease_ends_no_later_than_the_stores_surely_does() {
        let (plan, mut leases) = (plan(), Leases::default());
        let id = leases.give(&grant(&plan), &[1], (at(10), at(40))).id;
        assert!(matches!(renew(&mut leases, id, 99), Ok(Renewed::Done)));
        // A thousandth less than the store says.
        assert!(matches!(renew(&mut leases, id, 100), Ok(Renewed::Asks)));
        let Some(Step::Renew(7, until)) = step(&mut leases) else {
            panic!("the store is asked");
        };
        assert!(until > at(100) && step(&mut leases).is_none());
        let (mut wakes, clocks) = (Vec::new(), (at(20), at(21), true));
        assert!(!leases.renewed((7, until), &Ok(Reply::Done), clocks, true, &mut wakes));
        assert!(matches!(renew(&mut leases, id, 100), Ok(Renewed::Done)));
    }

    #[test]
    fn what_expires_comes_back_once_and_is_forgotten_after_a_while() {
        let (plan, mut leases) = (plan(), Leases::default());
        let id = leases.give(&grant(&plan), &[2], (at(10), at(40))).id;
        assert!(leases.expire(at(39)).is_empty());
        let back = leases.expire(at(40));
        assert_eq!((back.len(), &back[0].amounts[..]), (1, &[2][..]));
        let over = leases.end(id, (&plan, Ending::Release, true), at(41));
        let over = over.expect("it is remembered");
        assert!(
            over.settlement.expired
                && over.back
                    == Some(Back {
                        grant: 7,
                        amounts: [0].into_iter().collect()
                    })
        );
        assert!(leases.expire(at(72)).is_empty());
        let gone = leases.end(id, (&plan, Ending::Release, true), at(72));
        assert_eq!(gone.err(), Some(StoreError::UnknownLease));
    }

    #[test]
    fn of_what_is_closed_the_store_is_told_how_much_is_held_and_its_end_at_last() {
        let (plan, mut leases) = (plan(), Leases::default());
        let mut grant = grant(&plan);
        assert!(grant.units.spend(&[3], at(1)));
        let first = leases.give(&grant, &[1], (at(1), at(40))).id;
        let second = leases.give(&grant, &[2], (at(1), at(40))).id;
        assert!(
            step(&mut leases).is_none()
                && leases
                    .close(&grant, (&path(), &Calendars::default()))
                    .is_none()
        );
        let told = |leases: &mut Leases| match step(leases) {
            Some(Step::Adjust(7, amounts, Cause::Use)) => amounts[0],
            _ => panic!("the store is to know"),
        };
        assert_eq!(told(&mut leases), 3);
        // One command at a time; an answer that is lost is no harm, since amounts are in all.
        drop(leases.end(first, (&plan, Ending::Release, false), at(2)));
        assert!(step(&mut leases).is_none());
        let lost = Err(StoreError::Unavailable("lost".to_owned()));
        let asked = (7, [3].into_iter().collect(), Cause::Use);
        assert!(!leases.adjusted(asked, lost, (at(2), true), &mut Vec::new()));
        assert!(step(&mut leases).is_none());
        leases.try_again(at(2));
        assert_eq!(told(&mut leases), 2);
        let done = Ok(Reply::Decision(Decision::bare(Verdict::Admit, None)));
        let asked = (7, [2].into_iter().collect(), Cause::Use);
        assert!(!leases.adjusted(asked, done, (at(3), true), &mut Vec::new()));
        assert!(step(&mut leases).is_none());
        drop(leases.end(second, (&plan, Ending::Release, false), at(3)));
        assert!(matches!(step(&mut leases), Some(Step::End(_))) && leases.is_empty());
    }

    #[test]
    fn where_the_stores_lease_is_over_so_are_those_that_were_given_of_it() {
        let (plan, mut leases) = (plan(), Leases::default());
        let id = leases.give(&grant(&plan), &[1], (at(10), at(40))).id;
        drop(renew(&mut leases, id, 200));
        let Some(Step::Renew(7, until)) = step(&mut leases) else {
            panic!("the store is asked");
        };
        let (mut wakes, clocks) = (Vec::new(), (at(20), at(21), true));
        let over = Err(StoreError::UnknownLease);
        assert!(leases.renewed((7, until), &over, clocks, true, &mut wakes));
        let renewed = renew(&mut leases, id, 30);
        assert_eq!(renewed.err(), Some(StoreError::LeaseEnded(at(20))));
    }
}
