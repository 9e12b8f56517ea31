//! A lease of the store whose slots this node gives out: what it holds there, and what it is to
//! hold. No I/O, no clock.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_store::core::{Amount, Span, Standing, Timestamp};
use tidegate_store::{OwnedPath, Plan, PlanLimit, Responder, StoreError, Wake};

use crate::calendars::Calendars;
use crate::doubt::{Doubt, LONGEST_PAUSE};
use crate::grants::{Amounts, Grant};
use crate::outstanding::is_slots;
use crate::returns::Return;

/// So much longer than a lease that is given the store's lasts, at most.
const LONGEST_MARGIN: Span = Span::from_secs(60);

/// For so long a lease of the store is renewed at least: a renewal that the store executes late is
/// told again before that is over.
const SHORTEST_RENEWAL: Span = Span::from_secs(8);

/// How long the store's lease is to last, so that leases of `ttl` can be given of it, and renewed,
/// for about as long without asking.
pub(crate) fn length_for(ttl: Span) -> Span {
    let micros = ttl.as_micros();
    let margin = given_for(ttl).as_micros() + micros / 500;
    Span::from_micros(micros.saturating_add(margin))
}

/// For how long leases of `ttl` can be given of it without asking.
pub(crate) fn given_for(ttl: Span) -> Span {
    ttl.min(LONGEST_MARGIN)
}

/// A holder who asks for a later expiry than the store's lease has.
pub(crate) struct Renewal {
    pub(crate) id: u128,
    pub(crate) until: Timestamp,
    /// Until when the store's is to last for that.
    pub(crate) stores_until: Timestamp,
    pub(crate) responder: Responder,
}

/// A holder who asks for more than the node has.
pub(crate) struct Growth {
    pub(crate) id: u128,
    pub(crate) more: Amounts,
    /// Even if its rates do not fit.
    pub(crate) overdraw: bool,
    pub(crate) responder: Responder,
}

/// See the [module](self).
pub(crate) struct SlotLease {
    pub(crate) id: u128,
    /// The limits by which it was granted: the order of all amounts.
    pub(crate) plan: Arc<Plan>,
    /// Where they stood when it was.
    pub(crate) standings: SmallVec<[Option<Standing>; 1]>,
    /// How many leases that were given of it are held.
    pub(crate) held: usize,
    /// Until when it is surely there.
    pub(crate) sure_until: Timestamp,
    /// Until when it may be there, if nobody ends it: the latest that the store was asked for.
    may_last_until: Timestamp,
    /// What it took at first.
    taken: Amounts,
    /// Once nothing more is given of it: what is used of it, of slots what is held.
    used: Option<Amounts>,
    /// What holders have used beyond what they took.
    beyond: Amounts,
    /// What the store has been told that it is to have; `None`: it may not have heard the last.
    told: Option<Amounts>,
    /// The least of what it was told without an answer: while that is in doubt it may execute it
    /// after all that follows, and then has no more.
    unanswered: Option<Amounts>,
    /// Whether it is told again what it is to have.
    doubt: Doubt,
    /// And until when.
    doubt_of_end: Doubt,
    /// It is to be told until when now.
    renews_again: bool,
    pub(crate) is_under_way: bool,
    /// The store has not answered: not again before the next look.
    pub(crate) is_put_off: bool,
    pub(crate) renewals: Vec<Renewal>,
    pub(crate) growth: Option<Growth>,
}

impl SlotLease {
    pub(crate) fn of(grant: &Grant) -> Self {
        Self {
            id: grant.id,
            plan: Arc::clone(&grant.plan),
            standings: grant.told.standings.clone(),
            held: 0,
            sure_until: grant.sure_until,
            may_last_until: grant.may_last_until(),
            taken: grant.taken.clone(),
            used: None,
            beyond: grant.taken.iter().map(|_| 0).collect(),
            told: Some(grant.taken.clone()),
            unanswered: None,
            doubt: Doubt::default(),
            doubt_of_end: Doubt::default(),
            renews_again: false,
            is_under_way: false,
            is_put_off: false,
            renewals: Vec::new(),
            growth: None,
        }
    }

    /// Until when the store is to keep it, if it is to be asked so now. It is never shortened: others
    /// believe in what it has. Nor is it asked for less than [`SHORTEST_RENEWAL`].
    pub(crate) fn next_end(&mut self, now: Timestamp) -> Option<Timestamp> {
        let asked = self.renewals.iter().map(|renewal| renewal.stores_until);
        let again = std::mem::take(&mut self.renews_again).then_some(self.may_last_until);
        let until = asked.max().max(again)?.max(self.sure_until);
        let until = until.max(now + SHORTEST_RENEWAL);
        self.may_last_until = self.may_last_until.max(until);
        Some(until)
    }

    /// The store has not answered until when it keeps it: it may do that later, and then keeps it
    /// for less than it was asked for since. It is told again several times in what it was asked for.
    pub(crate) fn note_unanswered_end(&mut self, length: Span, now: Timestamp) {
        let part = Span::from_micros(length.as_micros() / 4);
        self.doubt_of_end.begin(now, part);
    }

    /// It was not told until when: again at the next look, where that is in doubt.
    pub(crate) fn tell_end_again(&mut self, now: Timestamp) {
        self.doubt_of_end.again(now);
    }

    /// The store has answered until when it keeps it, which it was told at `told`.
    pub(crate) fn note_end_told(&mut self, told: Timestamp) {
        self.doubt_of_end.settle(told);
    }

    /// The store has not answered: not again before the next look, unless a holder waits for
    /// something else, who may not have so long.
    pub(crate) fn put_off(&mut self) {
        self.is_put_off = self.renewals.is_empty() && self.growth.is_none();
    }

    /// Whether the store is to be asked for something.
    pub(crate) fn has_wish(&self) -> bool {
        let renews = !self.renewals.is_empty() || self.renews_again;
        renews || self.growth.is_some() || self.is_to_tell()
    }

    /// Whether nothing more is given of it.
    pub(crate) const fn is_closed(&self) -> bool {
        self.used.is_some()
    }

    /// Nothing more is given of it: so much is used, of slots held.
    pub(crate) fn close(&mut self, used: &[Amount]) {
        self.used = Some(used.into());
    }

    /// So much of what was used comes back, of what was used beyond first: no grant had that.
    /// What is the grant's, where that is spent of still.
    pub(crate) fn take_back(&mut self, mut amounts: Amounts) -> Option<Amounts> {
        for (amount, beyond) in amounts.iter_mut().zip(&mut self.beyond) {
            let of_beyond = (*amount).min(*beyond);
            *beyond -= of_beyond;
            *amount -= of_beyond;
        }
        let Some(used) = &mut self.used else {
            return Some(amounts);
        };
        for (used, amount) in used.iter_mut().zip(amounts) {
            *used = used.saturating_sub(amount);
        }
        None
    }

    /// So much more is used of a closed one.
    pub(crate) fn use_more(&mut self, amounts: &[Amount]) {
        let used = self.used.iter_mut().flatten();
        used.zip(amounts).for_each(|(used, &more)| *used += more);
    }

    /// Holders have used so much beyond what they took.
    pub(crate) fn go_beyond(&mut self, position: usize, more: Amount) {
        if let Some(beyond) = self.beyond.get_mut(position) {
            *beyond = beyond.saturating_add(more);
        }
    }

    /// What the store's lease is to have of each limit.
    pub(crate) fn wanted(&self) -> Amounts {
        let base = self.used.as_ref().unwrap_or(&self.taken);
        let limits = self.plan.limits().iter().enumerate();
        let wanted = limits.map(|(position, limit)| {
            let of = |amounts: &Amounts| amounts.get(position).copied().unwrap_or(0);
            match self.is_closed() && is_slots(limit) {
                true => 0,
                false => of(base).saturating_add(of(&self.beyond)),
            }
        });
        wanted.collect()
    }

    /// What it is to have with the growth that is asked for.
    pub(crate) fn wanted_with_growth(&self) -> Amounts {
        let mut wanted = self.wanted();
        let more = self.growth.iter().flat_map(|growth| &growth.more);
        wanted
            .iter_mut()
            .zip(more)
            .for_each(|(all, &more)| *all += more);
        wanted
    }

    /// Whether the store may not know what it is to have.
    pub(crate) fn is_to_tell(&self) -> bool {
        self.told.as_ref() != Some(&self.wanted())
    }

    /// The store has done what it was told.
    pub(crate) fn note_told(&mut self, told: Amounts) {
        self.told = Some(told);
    }

    /// The store has not answered to that: it may have done it, or do it later.
    pub(crate) fn note_unanswered(&mut self, told: Amounts, now: Timestamp) {
        self.told = None;
        self.doubt.begin(now, LONGEST_PAUSE);
        match &mut self.unanswered {
            None => self.unanswered = Some(told),
            Some(least) => {
                let both = least.iter_mut().zip(told);
                both.for_each(|(least, told)| *least = told.min(*least));
            }
        }
    }

    /// The store is to be asked again, if it did not answer.
    pub(crate) fn try_again(&mut self, now: Timestamp) {
        self.is_put_off = false;
        if self.doubt.is_due(now) {
            self.doubt.put_off(now);
            self.told = None;
        }
        // For the last time now: it is told until it answers.
        self.doubt.settle(now);
        if !self.doubt.lasts() {
            self.unanswered = None;
        }
        if self.doubt_of_end.is_due(now) {
            self.doubt_of_end.put_off(now);
            self.renews_again = true;
        }
    }

    /// Answers a holder who asks for more than what the store may execute late leaves.
    pub(crate) fn refuse_growth(&mut self) -> Wake {
        let wanted = self.wanted_with_growth();
        let mut least = self.unanswered.iter().flatten();
        if wanted
            .iter()
            .all(|wanted| least.next().is_none_or(|least| wanted <= least))
        {
            return Wake::default();
        }
        let Some(growth) = self.growth.take() else {
            return Wake::default();
        };
        growth.responder.answer(Err(StoreError::Busy(
            "the store has not answered about the slots that this lease is one of; \
             end it and acquire anew"
                .to_owned(),
        )))
    }

    /// Its end at the store.
    pub(crate) fn ending(&self, (path, calendars): (&OwnedPath, &Calendars)) -> Return {
        let used = self.wanted();
        let used = used.iter().zip(self.plan.limits());
        let spent = used.map(|(&used, limit)| if limit.rule.is_held() { 0 } else { used });
        Return::charging((path, calendars), self.id, (spent.collect(), &self.plan))
            .of_slots_until(self.may_last_until)
    }

    /// What it is to have, in the order of `plan`.
    pub(crate) fn in_order_of(&self, plan: &Plan, all: &[Amount]) -> Vec<Option<Amount>> {
        let of = |limit: &PlanLimit| all.get(self.plan.position(limit.uid)?).copied();
        plan.limits().iter().map(of).collect()
    }
}
